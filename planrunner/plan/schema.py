"""The schema check: plans, test files and settings against their published schemas.

``validation`` says what is wrong. Of a large tree ``jsonschema_rs``, where it is installed, first says where: to load
it takes as long as to look at a hundred tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.plan.sections import sections_with
from planrunner.plan.validation import faults
from planrunner.plan.validation import read_schema as read_schema
from planrunner.plan.wording import unknown_key
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, to_json

_PLAN = "plan.schema.json"


def check(tree: Node) -> list[Diagnostic]:
    """Every fault of a plan's tree against the published schema, in the order of the text."""
    return document_check(_PLAN, "the plan", tree)


def published() -> dict[str, Any]:
    """The published schema of plans as data."""
    return read_schema(_PLAN)


def section_check(file: str, section: str, node: Node) -> list[Diagnostic]:
    """Every fault of one section of a document that has a published schema; a section that the schema does not know
    may hold anything."""
    known = section in read_schema(file)["properties"]
    return document_check(f"{file}#/properties/{section}", f"`{section}`", node) if known else []


def unknown_section(file: str, whose: str, key: Scalar, owner: Mapping, known: tuple[str, ...]) -> Diagnostic:
    """The finding about a section that a document with a published schema has not."""
    under = sections_with(str(key.value), read_schema(file), read_schema)
    return unknown_key(whose, key, known, owner, tuple(name for name in under if name in known))


def document_check(address: str, name: str, node: Node) -> list[Diagnostic]:
    """Every fault of a document against a published schema, or a part of it such as
    ``project.schema.json#/properties/people``; ``name`` is what messages call the document."""
    unsound = None
    if _is_large(node) and (validator := _quick(address)) is not None:
        try:
            unsound = _unsound(validator, to_json(node))
        except ValueError:  # data that it does not read, such as half of a surrogate pair
            pass
    return [] if unsound == [] else faults(address, name, node, unsound)


SMALL = 1_000
"""Nodes of a tree that ``validation`` looks at alone."""


def _is_large(node: Node) -> bool:
    waiting = [node]
    for count, each in enumerate(waiting):
        if count == SMALL:
            return True
        if isinstance(each, Mapping):
            waiting += [value for _, value in each.entries]
        elif not isinstance(each, Scalar):
            waiting += each.items
    return False


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
    """The validator of a part of a schema; None on a platform without wheels."""
    try:
        from jsonschema_rs import Draft7Validator  # 25 ms with the schema, which few plans are large enough for
    except ImportError:
        return None

    def retrieve(uri: str) -> Json:
        return read_schema(uri.rpartition("/")[2])

    return Draft7Validator({"$ref": address}, retriever=retrieve)
