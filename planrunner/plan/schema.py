"""The schema check: plans, test files and settings against their published schemas.

``jsonschema_rs``, where it is installed, says in a few milliseconds whether a tree is sound. Only for one that is not,
``jsonschema`` is loaded: ``validation`` words its errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.syntax.tree import Json, Node, to_json

try:
    import jsonschema_rs

    _Validator: Any = jsonschema_rs.Draft7Validator
except ImportError:  # a platform without wheels
    _Validator = None

_PLAN = "plan.schema.json"


def check(tree: Node) -> list[Diagnostic]:
    """Every fault of a plan's tree against the published schema, in the order of the text."""
    return document_check(_PLAN, "the plan", tree)


def published() -> dict[str, Any]:
    """The published schema of plans as data."""
    return read_schema(_PLAN)


@lru_cache(maxsize=8)
def read_schema(file: str) -> dict[str, Any]:
    """A published schema as data."""
    schema: dict[str, Any] = read_json(read_data("schemas", file))
    return schema


def document_check(file: str, name: str, node: Node) -> list[Diagnostic]:
    """Every fault of a document against a published schema; ``name`` is what messages call it."""
    return _faults(file, "#", name, node)


def section_check(file: str, section: str, node: Node) -> list[Diagnostic]:
    """Every fault of one section of a document that has a published schema; a section that the schema does not know
    may hold anything."""
    if section not in read_schema(file)["properties"]:
        return []
    return _faults(file, f"#/properties/{section}", f"`{section}`", node)


def _faults(file: str, pointer: str, name: str, node: Node) -> list[Diagnostic]:
    if is_sound(file + pointer, to_json(node)):
        return []
    from planrunner.plan.validation import faults

    return faults(file, pointer, name, node)


def is_sound(pointer: str, data: Json) -> bool:
    """Whether the data is known to fit a part of a published schema; False where that takes a closer look."""
    try:
        return _Validator is not None and _quick(pointer)(data)
    except ValueError:  # data that it does not read, such as half of a surrogate pair
        return False


@lru_cache(maxsize=32)
def _quick(pointer: str) -> Callable[[Json], bool]:
    def retrieve(address: str) -> Json:
        return read_schema(address.rpartition("/")[2])

    is_valid: Callable[[Json], bool] = _Validator({"$ref": pointer}, retriever=retrieve).is_valid
    return is_valid
