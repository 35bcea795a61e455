"""The end of a task that cannot start any more: what before it kept it from starting, as a code that joins go by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from planrunner.machine.commands import Command, settle
from planrunner.machine.joins import Verdict, holds_ideally, need_text
from planrunner.machine.state import State

Reason = Literal["cut_off", "cancelled", "skipped", "branch", "join"]
"""``cut_off``: a failure; ``cancelled``: a cancellation; ``skipped``: a task that was skipped or omitted itself;
``branch``: the edges led elsewhere; ``join``: the join asks for something else."""

_KEPT_BY: dict[Reason, Collection[str]] = {
    "cut_off": ("failed", "cut_off"),
    "cancelled": ("cancelled",),
    "skipped": ("skipped", "omitted"),
}
"""The standings that keep a task from starting, the gravest first."""


def omit(state: State, number: int, needs: Verdict, edges: Verdict, why: str) -> Command | None:
    """Settle a task whose needs or edges are unmet. The gravest cause counts, so while a graver one may follow nothing
    is settled: the reason does not depend on the order in which the tasks before it ended."""
    task = state.specs[number]
    if state.edition < 2:
        return settle(task, "omitted", "join", why)
    wants = _wants_completed(state, number)
    standings = [state.tasks[need].standing for need in state.shape.needs[number]]
    causes: list[str] = list(standings) if needs == "unmet" and wants else []
    if edges == "unmet":
        causes += _sources(state, number)
    reason = _gravest(causes)
    may_follow = edges == "waiting" or ("" in standings and (needs != "unmet" or wants))
    if reason != "cut_off" and may_follow:
        return None
    if reason is None:
        return settle(task, "omitted", "join" if needs == "unmet" else "branch", why)
    if needs == "unmet" and task.join.kind == "all":
        why = need_text(state, number, _KEPT_BY[reason]) or why
    return settle(task, "omitted", reason, why)


def _gravest(standings: Iterable[str]) -> Reason | None:
    found = set(standings)
    return next((reason for reason, kept_by in _KEPT_BY.items() if not found.isdisjoint(kept_by)), None)


def _sources(state: State, number: int) -> list[str]:
    """What the tasks stand as whose edges would lead here had they completed."""
    routes = state.shape.routes_in[number]
    found = [(route.edge.on, state.tasks[route.source].standing) for route in routes]
    return [standing for on, standing in found if on == "success" or (on != "failure" and standing != "failed")]


def _wants_completed(state: State, number: int) -> bool:
    """Whether the needs of a task are met where all of them complete; if not, its join asks for failures or skips."""
    kind = state.specs[number].join.kind
    if kind == "expression":
        return holds_ideally(state, number)
    return kind not in ("all_failed", "one_failed")
