"""Headers: which a plan may set, which follow a redirect to another origin, and which charsets are believed."""

from __future__ import annotations

import codecs
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


_NO_TEXT = frozenset("base64 bz2 hex quopri rot-13 uu zlib".split())
_NOT_OF_THE_WEB = frozenset("idna punycode raw-unicode-escape undefined unicode-escape utf-7".split())
"""Of Python alone: they take hours for a long text, give halves of surrogate pairs, or nothing at all."""


def is_charset(name: str) -> bool:
    """Whether text can be decoded by it: every sound byte sequence gives text that UTF-8 can encode, in good time."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return False
    return codec not in _NO_TEXT | _NOT_OF_THE_WEB


_MARK = "planrunner.origin"

REDIRECT_BODY = 1 << 16
"""Bytes of the body of a redirect that are read."""

FOLLOWS = frozenset(
    "host user-agent accept accept-encoding accept-language connection range if-range if-none-match "
    "if-modified-since cache-control".split()
)
"""Headers that another origin gets to see. Any other may carry a secret, whatever its name is."""


def keep_to_origin(request: Any) -> None:
    """Take from a request that a redirect sent to another origin all it should not carry; the first one stays as it is.

    The extensions of a request are handed on to the one that follows a redirect, so the first leaves its origin there.
    Raises Failure (policy) where a body would have gone along.
    """
    here = (request.url.scheme, request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80))
    first = request.extensions.setdefault(_MARK, here)
    if here == first or (first == ("http", here[1], 80) and here == ("https", here[1], 443)):
        return
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        first_url, here_url = (f"{scheme}://{host}:{port}" for scheme, host, port in (first, here))
        raise Failure(
            f"{first_url} redirects the body of the request to {here_url}, which is not followed",
            rule="network.redirect",
        )
    for name in [name for name in request.headers if name.lower() not in FOLLOWS]:
        del request.headers[name]


def is_secret(name: str) -> bool:
    """Whether a header of this name is likely to carry a secret."""
    plain = name.lower()
    known = plain in ("authorization", "proxy-authorization", "cookie", "set-cookie", "set-cookie2")
    return known or any(sign in plain for sign in ("token", "secret", "api-key", "apikey", "password"))
