"""Which part of an address says what is reached: a value behind the host is data, one in the host is not."""

from __future__ import annotations

import re

HOLE = "\0"

_SCHEME = r"(?:[A-Za-z][A-Za-z0-9+.-]*:/{0,2})?"
_AUTHORITY = r"[^/?#\\]+[/?#]"


def in_authority(text: str) -> list[int]:
    """The numbers of those holes (NUL characters) of an address that stand before the end of its host."""
    scheme = re.match(_SCHEME, text)
    whole = re.compile(_AUTHORITY).match(text, scheme.end() if scheme is not None else 0)
    end = len(text) if whole is None else whole.end()
    return list(range(text.count(HOLE, 0, end)))


def host_of(address: str) -> tuple[str, int]:
    """Host and port of an address, or of ``git@host:path``; empty where it names none, as a path does."""
    text = address.strip()
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/{0,2}([^/?#\\]*)", text)
    if found is not None and text[found.end(1) :].startswith("://"):
        scheme, authority = found[1].lower(), found[2]
        host, port = _split(authority.rpartition("@")[2])
        return host, port or {"http": 80, "https": 443, "ssh": 22, "git": 9418}.get(scheme, 0)
    short = re.match(r"(?:[^/@:\s]+@)?([^/@:\s]+):(?!//)", text)
    return (short[1].lower(), 22) if short is not None else ("", 0)


def _split(authority: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?", authority)
    if found is None:
        return authority.lower(), 0
    return found[1].strip("[]").rstrip(".").lower(), int(found[2] or 0)
