"""Where in a published schema a key belongs that is not a key of the mapping it was written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Schema: TypeAlias = "dict[str, Any]"

PLAN, PROJECT = "plan.schema.json", "project.schema.json"


def sections_with(key: str, schema: Schema, read: Callable[[str], Schema]) -> tuple[str, ...]:
    """The keys of a mapping whose own mappings have ``key``; ``read`` gives the schema of a file."""
    sections = schema.get("properties", {}).items()
    return tuple(name for name, part in sections if key in _followed(part, read).get("properties", ()))


def _followed(part: Schema, read: Callable[[str], Schema]) -> Schema:
    """A part of a schema, or the one that it refers to; one without a file is looked up in both."""
    target = (part.get("allOf") or [part])[0].get("$ref", "")
    file, _, pointer = target.partition("#")
    for name in [file] if file else [PLAN, PROJECT] if target else []:
        found: Any = read(name)
        for step in filter(None, pointer.split("/")):
            found = found.get(step, {})
        if found:
            return found if isinstance(found, dict) else {}
    return part
