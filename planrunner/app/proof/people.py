"""What people decide in an imagined world, as the events that a decision leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planrunner.machine.admission import wanted
from planrunner.machine.events import BudgetExtended, Event
from planrunner.machine.state import GateState, State
from planrunner.machine.votes import Vote, count

Json = Any

SAMPLES: dict[str, Json] = {
    "int": 1,
    "number": 1,
    "bool": True,
    "duration": "1s",
    "size": "1B",
    "money": "$1",
    "percent": "1%",
    "list": [],
    "map": {},
}
"""A value of each type, for what has to be given and nobody has given."""


def decided(state: State, number: int, decision: Json) -> Sequence[Event]:
    """The votes of a decision about a task that waits; none for ``expire`` and None, which are no words of anybody.

    Who votes has the roles that the gate asks for; where it needs several, as many say the same.
    """
    gate = state.tasks[number].gate
    if decision is None or gate is None or not gate.waits:
        return ()
    said: Mapping[str, Json] = {"decision": decision} if isinstance(decision, str) else decision
    word = str(said.get("decision", "approve"))
    if word == "expire":
        return ()
    events: list[Event] = []
    for name in _voters(gate, said, 1 if word == "reject" else gate.need):
        vote = Vote(
            gate=state.specs[number].id,
            verdict="reject" if word == "reject" else "approve",
            by=name,
            roles=(str(said["role"]),) if "role" in said else gate.roles,
            reason=str(said.get("comment", "")),
            choice="" if word == "reject" else _choice(gate, said),
            fields={} if word == "reject" else _fields(gate, said),
        )
        events += count(state, vote).events
    return events


def extended(state: State, number: int) -> Sequence[Event]:
    """What somebody adds who extends every limit that a task waits for by as much as those who wait need."""
    found = state.tasks[number]
    if (found.status, found.reason) != ("blocked", "budget"):
        return ()
    task = state.specs[number].id
    return [
        BudgetExtended(each.scope, each.what, each.more or each.limit or 1.0, "test")
        for each in wanted(state, state.active_since or 0.0)
        if each.tasks[0] == task
    ]


def lapses(state: State, number: int, decision: Json) -> float | None:
    """When a gate expires that nobody is going to decide (seconds since 1970)."""
    gate = state.tasks[number].gate
    word = decision if isinstance(decision, str) or decision is None else decision.get("decision")
    return gate.expires_at if gate is not None and gate.waits and word == "expire" else None


def _voters(gate: GateState, said: Mapping[str, Json], need: int) -> list[str]:
    named = [str(said["by"])] if "by" in said else list(gate.people)
    missing = need - len(named)
    return [*named, *(f"person {number}" for number in range(1, missing + 1))][:need]


def _choice(gate: GateState, said: Mapping[str, Json]) -> str:
    options = gate.request.get("options") or ()
    return str(said.get("option") or (options[0]["name"] if options else ""))


def _fields(gate: GateState, said: Mapping[str, Json]) -> dict[str, Json]:
    """The answers of the test, and for fields that have to be given a value of their type."""
    given = dict(said.get("values") or {})
    for field in gate.request.get("form") or ():
        if field.get("required") and field["name"] not in given:
            choices = field.get("choices") or ()
            given[field["name"]] = choices[0] if choices else SAMPLES.get(field.get("type", ""), f"<{field['name']}>")
    return given
