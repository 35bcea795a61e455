"""JSON Pointer (RFC 6901): one place in an answer."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.jsontext import shown

ABSENT = object()


def checked_pointer(pointer: Any, name: str) -> str:
    """The pointer of an input. Raises Failure for what is none."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise Failure(f"`{name}` must be a JSON pointer such as /data/items, found {shown(pointer)}")
    return pointer


def at(data: Any, pointer: str) -> Any:
    """What the pointer leads to, or ``ABSENT``."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isascii() and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        else:
            return ABSENT
    return data
