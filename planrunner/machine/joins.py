"""When the needs of a task are met, and what a join looks at. Standings, not statuses: see ``state.Standing``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from planrunner.machine.results import ResultScope
from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.evaluate import decided
from planrunner.plan.expressions.values import EvaluationError

Verdict = Literal["met", "unmet", "waiting", "failed"]
"""``failed``: an expression over the needs has no value."""

_GOOD = ("completed", "tolerated")
_FAILED = ("failed", "cut_off")


def needs_verdict(state: State, number: int) -> tuple[Verdict, str]:
    """Whether the needs of a task are met, and for ``unmet`` and ``failed`` the sentence why."""
    task = state.specs[number]
    found = state.tasks[number]
    if task.join.kind == "all":
        if found.broken >= 0:
            broken = state.specs[found.broken].id
            return "unmet", f"needs `{broken}`, which {_word(state.tasks[found.broken])}"
        return ("met", "") if found.missing == 0 else ("waiting", "")
    standings: list[str] = [state.tasks[need].standing for need in state.shape.needs[number]]
    if not standings:
        return "met", ""
    if task.join.kind == "expression":
        return _expression(state, number, standings)
    verdict = _JOINS[task.join.kind](standings, task.join.count)
    return (
        verdict,
        f"join `{_join_text(state, number)}` is not met: {_tally(state, number)}" if verdict == "unmet" else "",
    )


def _expression(state: State, number: int, standings: list[str]) -> tuple[Verdict, str]:
    """In edition 1 an expression waits for all of its tasks, later for those that may still decide it."""
    join = state.specs[number].join
    assert join.expression is not None
    if state.edition < 2 and "" in standings:
        return "waiting", ""
    try:
        holds = _decided(state, number)
    except EvaluationError as error:
        return "failed", f"`{join.expression.text}` has no value: {error}"
    if holds is None:
        return "waiting", ""
    return ("met", "") if holds else ("unmet", f"`{join.expression.text}` is false: {_tally(state, number)}")


def holds_ideally(state: State, number: int) -> bool:
    """Whether the expression over the needs of a task may be true where all of them complete."""
    try:
        return _decided(state, number, ideal=True) is not False
    except EvaluationError:
        return True


def _decided(state: State, number: int, ideal: bool = False) -> bool | None:
    """Whether the expression over the needs of a task is true; None while tasks that have not ended decide that."""
    expression = state.specs[number].join.expression
    assert expression is not None
    return decided(expression.tree, ResultScope(state, number, ideal))


def _any(standings: list[str], count: int) -> Verdict:
    return _at_least(standings, 1)


def _at_least(standings: list[str], count: int) -> Verdict:
    good = sum(standing in _GOOD for standing in standings)
    if good >= count:
        return "met"
    return "waiting" if good + standings.count("") >= count else "unmet"


def _all_done(standings: list[str], count: int) -> Verdict:
    return "waiting" if "" in standings else "met"


def _all_done_any(standings: list[str], count: int) -> Verdict:
    return "waiting" if "" in standings else _at_least(standings, 1)


def _all_failed(standings: list[str], count: int) -> Verdict:
    if any(standing and standing not in _FAILED for standing in standings):
        return "unmet"
    return "waiting" if "" in standings else "met"


def _one_failed(standings: list[str], count: int) -> Verdict:
    if any(standing in _FAILED for standing in standings):
        return "met"
    return "waiting" if "" in standings else "unmet"


def _none_failed(standings: list[str], count: int) -> Verdict:
    if "cancelled" in standings or any(standing in _FAILED for standing in standings):
        return "unmet"
    return "waiting" if "" in standings else "met"


_JOINS: dict[str, Callable[[list[str], int], Verdict]] = {
    "any": _any,
    "at_least": _at_least,
    "always": _all_done,
    "all_done": _all_done,
    "all_done_any": _all_done_any,
    "all_failed": _all_failed,
    "one_failed": _one_failed,
    "none_failed": _none_failed,
}

_WORDS = {
    "": "is not decided",
    "completed": "completed",
    "tolerated": "was left out or failed with leave",
    "failed": "failed",
    "skipped": "was skipped",
    "omitted": "was omitted",
    "cut_off": "was cut off by a failure",
    "cancelled": "was cancelled",
}


def _word(found: TaskState) -> str:
    if found.standing == "cancelled" and found.status == "omitted":
        return "was cut off by a cancellation"
    return _WORDS[found.standing]


def need_text(state: State, number: int, standings: Collection[str]) -> str:
    """The sentence that names the first need that stands as one of ``standings``; empty where none does."""
    for need in state.shape.needs[number]:
        if state.tasks[need].standing in standings:
            return f"needs `{state.specs[need].id}`, which {_word(state.tasks[need])}"
    return ""


def _join_text(state: State, number: int) -> str:
    join = state.specs[number].join
    return f"at_least: {join.count}" if join.kind == "at_least" else join.kind


def _tally(state: State, number: int) -> str:
    """Each need with its standing, the first few of many."""
    needs = state.shape.needs[number]
    shown = [f"`{state.specs[need].id}` {_word(state.tasks[need])}" for need in needs[:6]]
    return ", ".join(shown) + (f" and {len(needs) - 6} more" if len(needs) > 6 else "")
