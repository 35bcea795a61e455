"""Which headers a plan may set, and what they can carry."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Failure

_FRAMING = frozenset("content-length transfer-encoding connection upgrade te trailer keep-alive host".split())


def header_name(name: Any) -> str:
    """A header that a plan names, in lower case. Raises Failure for one that is the request's own."""
    plain = str(name).lower()
    if plain in _FRAMING:
        raise Failure(f"the header `{name}` is set by the request itself")
    return plain


def is_line(text: str) -> bool:
    """Whether a header can carry it."""
    return text.isascii() and text.replace("\t", " ").isprintable()
