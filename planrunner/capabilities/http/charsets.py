"""Which of the names that a server gives a charset may be believed."""

from __future__ import annotations

import codecs

_NO_TEXT = frozenset("base64 bz2 hex quopri rot-13 uu zlib".split())
_NOT_OF_THE_WEB = frozenset("idna punycode raw-unicode-escape undefined unicode-escape utf-7".split())
"""Of Python alone: they take hours for a long text, give halves of surrogate pairs, or nothing at all."""


def is_charset(name: str) -> bool:
    """Whether text can be decoded by it: every sound byte sequence gives text that UTF-8 can hold, in good time."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return False
    return found not in _NO_TEXT | _NOT_OF_THE_WEB
