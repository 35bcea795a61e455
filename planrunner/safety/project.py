"""The project's file, ``planrunner.yaml`` beside the plans: who has which role, and the operator's settings.

Section by section it is held against ``schemas/project.schema.json``; nothing starts where it has errors.
"""

from __future__ import annotations

import os

from planrunner.errors import PlanInvalid, UsageError
from planrunner.record import TYPE_CHECKING, NamedTuple
from planrunner.regular import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from planrunner.diagnostics import Diagnostic
    from planrunner.source import Source
    from planrunner.syntax.tree import Mapping, Node

    Json = Any

FILE = "planrunner.yaml"

SECTIONS = (
    *("people", "policy", "network", "models", "research", "sql", "git", "forge", "artifacts", "plugins"),
    *("agents", "tools", "memory", "workflow", "scheduler", "provider_credentials", "profiles"),
)
"""What the file may hold."""


MOST = 8 << 20
"""Bytes of it, as of a plan; what is longer is refused by its length."""


class Checked(NamedTuple):
    """The project's file as text, as a tree (None where it is empty or does not parse), and what is wrong with it."""

    source: Source
    tree: Node | None
    findings: tuple[Diagnostic, ...]


def check_project(directory: str) -> Checked | None:
    """What is wrong with the project's file; None where there is none. Raises UsageError where it cannot be read."""
    path = os.path.join(directory, FILE)
    try:
        content = read_regular(path, MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}") from None
    from planrunner import syntax  # late: few projects have such a file
    from planrunner.diagnostics import arrange
    from planrunner.source import Source

    source, findings = syntax.decode(content, path)
    if source is None:
        return Checked(Source("", path, "yaml"), None, findings)
    if all(not line.strip() or line.lstrip().startswith("#") for line in source.text.splitlines()):
        return Checked(source, None, ())
    parsed = syntax.parse(source)
    found = () if parsed.tree is None else tuple(_faults(parsed.tree))
    return Checked(source, parsed.tree, arrange((*parsed.findings, *found)))


def read_data(directory: str) -> dict[str, Json]:
    """What the project's file says, section by section; empty where there is none. Raises UsageError for one that can
    not be read, and PlanInvalid with every finding for one with errors."""
    found = check_project(directory)
    if found is None:
        return {}
    if any(finding.severity == "error" for finding in found.findings):
        raise PlanInvalid(f"`{found.source.name}` is not sound", found.source, found.findings)
    return _data(found.tree)


def unsound(error: PlanInvalid) -> str:
    """The first error of the project's file in one line, with its place."""
    finding = next(each for each in error.findings if each.severity == "error")
    line, column = error.source.place(finding.span.start)
    return f"`{error.source.name}` is not sound: line {line}, column {column}: {finding.message}"


def _data(tree: Node | None) -> dict[str, Json]:
    if tree is None:
        return {}
    from planrunner.syntax.tree import to_json  # late, as above

    found = to_json(tree)
    return found if isinstance(found, dict) else {}


def _faults(tree: Node) -> Iterator[Diagnostic]:
    from planrunner.diagnostics import Diagnostic  # late, as above
    from planrunner.plan.wording import unknown_key
    from planrunner.syntax.tree import Mapping, Scalar, Sequence

    def is_role(node: Node) -> bool:
        return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value)

    def fault(message: str, node: Node) -> Diagnostic:
        return Diagnostic("PLAN005", message, node.span)

    if isinstance(tree, Scalar) and tree.value is None:
        return  # nothing but comments
    if not isinstance(tree, Mapping):
        yield fault(f"a project's file holds sections, such as people: …, not {_kind(tree)}", tree)
        return
    for key, _ in tree.entries:
        if key.value not in SECTIONS:
            yield unknown_key("a project's file", key, SECTIONS, tree)
    yield from _held_against_schema(tree)
    people = tree.get("people")
    if people is None:
        return
    if not isinstance(people, Mapping):
        yield fault(
            f"`people` takes a mapping from names to roles, such as ana: [release], not {_kind(people)}", people
        )
        return
    for name, roles in people.entries:
        wrong = [item for item in roles.items if not is_role(item)] if isinstance(roles, Sequence) else [roles]
        if isinstance(roles, Sequence) or not is_role(roles):
            yield from (fault(f"`{name.value}` takes a list of roles, such as [release]", node) for node in wrong)


def _held_against_schema(tree: Mapping) -> Iterator[Diagnostic]:
    from planrunner.plan.schema import section_check  # late, as above

    for key, value in tree.entries:
        if key.value in SECTIONS:
            yield from section_check("project.schema.json", str(key.value), value)


def _kind(node: Node) -> str:
    from planrunner.syntax.tree import Mapping, Sequence  # late, as above

    return "a mapping" if isinstance(node, Mapping) else "a list" if isinstance(node, Sequence) else "one value"
