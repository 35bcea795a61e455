"""What stands in a plan for an address and for a status of HTTP."""

from __future__ import annotations


def is_address(value: object) -> bool:
    """Whether it is text that begins as an address of http or https does, with a host."""
    if not isinstance(value, str):
        return False
    scheme, _, rest = value.partition("://")
    return scheme.lower() in ("http", "https") and rest[:1] not in ("", "/", "?", "#", ":")


def parse_status(value: object) -> tuple[int, int] | None:
    """`204`, `2xx`, `200-299` as first and last code; None for anything else, such as a range that runs backwards."""
    text = str(value).strip().lower()
    if len(text) == 3 and text[0] in "12345" and text[1:] == "xx":
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    first, _, last = text.partition("-")
    last = last or first
    if not all(part.isascii() and part.isdigit() for part in (first, last)):
        return None
    return (int(first), int(last)) if 100 <= int(first) <= int(last) <= 599 else None
