"""The ways in which programs commonly write a value: what has to be looked for where the value may not appear."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 6
"""Bytes of the shortest value, or line of one, that is looked for: shorter ones stand in any text by chance."""

_UNCHANGED_BY_SCRIPTS = "-_.!~*'()"
"""What the ``encodeURIComponent`` of browsers leaves as it is."""


def spellings(value: bytes) -> frozenset[bytes]:
    """A value of one line as it is, and as JSON, URLs, forms, shells, hexadecimal, base64, HTML and Python write it."""
    found = {value, *_octets(value)}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return frozenset(found)
    found |= {each.encode("utf-8") for each in (*_json(text), *_addresses(text), *_shell(text), *_html(text))}
    found |= {each.encode("utf-8") for each in _python(text)}
    return frozenset(found)


def lines(value: bytes) -> tuple[bytes, ...]:
    """What of a value is looked for: each of its lines that is long enough, without the frame lines of PEM files."""
    each = (line.strip() for line in value.splitlines())
    return tuple(dict.fromkeys(line for line in each if len(line) >= SHORTEST and not line.startswith(b"-----")))


def _octets(value: bytes) -> Iterator[bytes]:
    plain = value.hex()
    yield plain.encode()
    yield plain.upper().encode()
    yield repr(value)[2:-1].encode()
    for before, start in ((0, 0), (1, 2), (2, 3)):  # wherever in a longer text it stands, in groups of three bytes
        whole = base64.b64encode(b"\0" * before + value)
        inner = whole[start : (before + len(value)) * 8 // 6]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _json(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield written
        yield written.replace("/", "\\/")
        yield written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _addresses(text: str) -> Iterator[str]:
    for written in (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe=_UNCHANGED_BY_SCRIPTS)):
        yield written
        yield re.sub("%..", lambda found: found[0].lower(), written)


def _shell(text: str) -> Iterator[str]:
    yield shlex.quote(text)[1:-1] if "'" in text else text
    yield text.replace("'", "'\\''")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)
    yield re.sub(r'(["\\$`])', r"\\\1", text)


def _html(text: str) -> Iterator[str]:
    outer = html.escape(text, quote=False)
    yield outer
    for double in ("&quot;", "&#34;"):
        for single in ("&#x27;", "&#39;", "&apos;", "'"):
            yield outer.replace('"', double).replace("'", single)


def _python(text: str) -> Iterator[str]:
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    yield text.replace("\\", "\\\\").replace("'", "\\'")
