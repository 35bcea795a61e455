"""The schema check: plans, test files and settings against their published schemas.

``jsonschema_rs``, where it is installed, says in a few milliseconds whether a tree is sound, and where it is not. Only
for one that is not, ``jsonschema`` is loaded: ``validation`` words its errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
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


def section_check(file: str, section: str, node: Node) -> list[Diagnostic]:
    """Every fault of one section of a document that has a published schema; a section that the schema does not know
    may hold anything."""
    known = section in read_schema(file)["properties"]
    return document_check(f"{file}#/properties/{section}", f"`{section}`", node) if known else []


def document_check(address: str, name: str, node: Node) -> list[Diagnostic]:
    """Every fault of a document against a published schema or a part of it (``run.schema.json#/definitions/run``);
    ``name`` is what messages call the document."""
    unsound = None
    if _Validator is not None:
        try:
            unsound = _unsound(_quick(address), to_json(node))
        except ValueError:  # data that it does not read, such as half of a surrogate pair
            pass
    if unsound == []:
        return []
    from planrunner.plan.validation import faults  # with jsonschema, which no sound plan needs

    return faults(address, name, node, unsound)


_MOST = 1_001
"""Errors whose places are asked for: one more than ``validation`` reports."""

_WINDOW = 2_000
"""Items of the longest list that are checked at once: the library makes all errors before it gives the first."""


def _unsound(validator: Any, data: Any) -> list[Iterable[str | int]]:
    """The paths of the faults of a document, of ``_MOST`` at most."""
    if validator.is_valid(data):
        return []
    lists = {key: value for key, value in data.items() if isinstance(value, list)} if isinstance(data, dict) else {}
    longest = max(lists, key=lambda key: len(lists[key]), default="")
    paths: list[Iterable[str | int]] = []
    for start in range(0, max(len(lists.get(longest, ())), 1), _WINDOW):
        window = {**data, longest: lists[longest][start : start + _WINDOW]} if lists else data
        for error in islice(validator.iter_errors(window), _MOST):
            path = list(error.instance_path)
            if len(path) > 1 and path[0] == longest:
                path[1] += start
            elif start:
                continue  # not of the list: the first window has told it
            paths.append(path)
        if len(paths) >= _MOST:
            break
    return paths[:_MOST]


@lru_cache(maxsize=32)
def _quick(address: str) -> Any:
    def retrieve(uri: str) -> Json:
        return read_schema(uri.rpartition("/")[2])

    return _Validator({"$ref": address}, retriever=retrieve)
