"""The profiles of a project's file, checked: each section on its own, and what it makes of the section below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from planrunner.diagnostics import Diagnostic
from planrunner.plan.schema import section_check
from planrunner.plan.wording import unknown_key
from planrunner.safety import profiles
from planrunner.safety.layers import joined, overlaid
from planrunner.source import Span
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, to_json

if TYPE_CHECKING:
    from planrunner.safety.parts import Part

Keyed = tuple[Scalar, Node]

_SCHEMA = "project.schema.json"
SECTIONS = (
    *("policy", "network", "models", "research", "sql", "git", "forge", "artifacts", "plugins"),
    *("agents", "tools", "memory", "workflow", "scheduler", "provider_credentials"),
)
"""What a profile may hold. Who may decide, what is included and which profiles there are, it does not say."""
_OF_THE_WHOLE = ("PLAN004", "PLAN009")
"""Findings that only the section with the profile over it can have: a missing key, keys that exclude each other."""
_MOST_SECTIONS = 100
"""Profiles that a project may have."""
_LARGEST = 200_000
"""Values that are looked at for all profiles of a file, each with what lies below it."""


class _TooMuch(Exception):
    """The profiles lie over more than is looked at."""


class _Room:
    """How much may still be looked at."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _LARGEST


def check_profiles(part: Part, tree: Node, sections: Iterable[Keyed]) -> None:
    """Add what is wrong with the profiles to the findings of the part; ``sections`` are those of all files."""
    if not isinstance(tree, Mapping):
        return
    base, room = _together(sections), _Room()
    for number, (key, over) in enumerate(tree.entries):
        if number == _MOST_SECTIONS:
            part.findings.append(Diagnostic("PLAN844", f"there are more than {_MOST_SECTIONS} profiles", key.span))
            return
        if key.value == profiles.NO_PROFILE:
            message = f"`{profiles.NO_PROFILE}` says that no profile holds, so none can be called that"
            part.findings.append(Diagnostic("PLAN844", message, key.span))
        if not isinstance(over, Mapping):
            continue  # the schema says so
        try:
            part.findings += _of_one(str(key.value), over, base, room)
        except _TooMuch:
            message = f"the profiles lie over more than {_LARGEST:,} values"
            part.findings.append(Diagnostic("PLAN844", message, key.span))
            return


def _together(sections: Iterable[Keyed]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in sections:
        name = str(key.value)
        found[name] = joined(found[name], to_json(value)) if name in found else to_json(value)
    return found


def _of_one(name: str, over: Mapping, base: dict[str, Json], room: _Room) -> Iterator[Diagnostic]:
    for key, value in over.entries:
        section = str(key.value)
        if section == "description":
            continue
        if section not in SECTIONS:
            if section in base or section in ("people", "include", "profile", "profiles"):
                yield Diagnostic("PLAN844", f"`{section}` cannot stand in a profile", key.span)
            else:
                yield unknown_key("a profile", key, SECTIONS, over)
            continue
        found = section_check(_SCHEMA, section, _said(value))
        yield from (finding for finding in found if finding.code not in _OF_THE_WHOLE)
        if any(finding.code not in _OF_THE_WHOLE for finding in found):
            continue
        whole = overlaid(base[section], to_json(value)) if section in base else to_json(_said(value))
        for finding in section_check(_SCHEMA, section, _tree(whole, key.span, value, room)):
            yield finding._replace(message=f"with the profile `{name}`: {finding.message}", labels=(), fix=None)


def _said(node: Node) -> Node:
    """The tree without empty values, which only take something away."""
    if isinstance(node, Sequence):
        return Sequence([_said(item) for item in node.items], node.start, node.end, node.flow)
    if not isinstance(node, Mapping):
        return node
    kept = [(key, _said(value)) for key, value in node.entries if not _is_empty(value)]
    return Mapping(kept, node.start, node.end, node.flow)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _tree(value: Json, place: Span, over: Node | None, room: _Room) -> Node:
    """Data as a tree: what the profile says stands where it says so, the rest at ``place``. Raises _TooMuch."""
    room.left -= 1
    if room.left < 0:
        raise _TooMuch
    if isinstance(value, dict):
        said = {key.value: (key.span, each) for key, each in over.entries} if isinstance(over, Mapping) else {}
        keyed = []
        for key, each in value.items():
            there, below = said.get(key, (place, None))
            keyed.append((Scalar(key, *there, key), _tree(each, there, below, room)))
        return Mapping(keyed, *place)
    if isinstance(value, list):
        return Sequence([_tree(each, place, None, room) for each in value], *place)
    return Scalar(value, *place, "" if value is None else str(value))
