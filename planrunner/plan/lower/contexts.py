"""The context profile of a task with `agent`: the profile of its agent, with the overrides of the task."""

from __future__ import annotations

from typing import Any

from planrunner.plan.contexts import FRESH, faults, read_profile, unknown, unmatched
from planrunner.plan.lower import values
from planrunner.plan.lower.values import Lowering
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any


class Said(Struct):
    """The ``context`` of a task, None where it has none; ``place`` is that of its agent. ``elsewhere``: it works in
    another directory than the project's."""

    node: Node | None
    place: Span
    elsewhere: bool = False


def profile(low: Lowering, definition: dict[str, Json], task: Said) -> dict[str, Json] | None:
    """The profile as data; None for an agent that gets only its prompt. A task gives a name, which replaces the
    profile of the agent, or keys that override it. Without layers in the profile, the memory layers of the agent are
    used."""
    node = task.node
    own = _named(low, definition.get("context"), task.place)
    said = None if node is None else _named(low, values.data(node), node.span)
    whole = own if said is None else said if isinstance(node, Scalar) else {**(own or {}), **said}
    whole = _with_layers(whole, definition.get("memory"))
    if isinstance(node, Mapping) and said is not None and whole is not None:
        _check(low, node, said, whole)
        if low.roster is not None:
            _look(low, node, {key: value for key, value in said.items() if key != "files" or not task.elsewhere})
    return None if whole is None else read_profile(whole).as_json()


def _with_layers(whole: dict[str, Json] | None, layers: Json) -> dict[str, Json] | None:
    """A profile that has no layers of memory, with those of the agent."""
    if not layers:
        return whole
    given = {"include": ["memory"]} if whole is None else whole
    memory = given.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    return given if "layers" in memory else {**given, "memory": {**memory, "layers": layers}}


def _named(low: Lowering, given: Json, place: Span) -> dict[str, Json] | None:
    """A profile, written out or by its name."""
    if given is None or isinstance(given, dict):
        return given
    if low.roster is None or not isinstance(given, str):
        return None
    if given == FRESH:
        low.report("PLAN006", "`context: fresh` is for tasks, not for agents", place)
    elif given not in low.roster.contexts:
        message, help_ = unknown(given, low.roster.contexts)
        low.report("PLAN841", message, place, help_)
    return dict(low.roster.contexts.get(given) or {}) if given != FRESH else None


def _check(low: Lowering, node: Mapping, said: dict[str, Json], whole: dict[str, Json]) -> None:
    """What is wrong with the keys of a task's own profile, where they stand."""
    for key, message in faults(said, whole):
        low.report("PLAN006", message, _place(node, key))


def _look(low: Lowering, node: Mapping, said: dict[str, Json]) -> None:
    """The patterns that match no file."""
    assert low.roster is not None
    for key, pattern in unmatched(said, low.roster.directory):
        low.report("PLAN846", f"`{pattern}` matches no file of the project", _place(node, key, pattern))


def _place(node: Mapping, key: str, word: str = "") -> Span:
    value = node.get(key)
    items = value.items if isinstance(value, Sequence) else [value]
    named = (item for item in items if isinstance(item, Scalar) and item.value == word)
    return next((item.span for item in named), value.span if value is not None else node.span)
