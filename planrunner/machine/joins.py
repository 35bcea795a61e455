"""When the needs of a task are met, and what a join looks at. Standings, not statuses: see ``state.Standing``."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from planrunner.machine.state import State

    Verdict = Literal["met", "unmet", "waiting", "failed"]
    """``failed``: an expression over the needs has no value."""

_GOOD = ("completed", "tolerated")


def needs_verdict(state: State, number: int) -> tuple[Verdict, str]:
    """Whether the needs of a task are met, and for ``unmet`` and ``failed`` the sentence why."""
    task = state.specs[number]
    found = state.tasks[number]
    if task.join.kind == "all":
        if found.broken >= 0:
            broken = state.specs[found.broken].id
            return "unmet", f"needs `{broken}`, which {_word(state.tasks[found.broken].standing)}"
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
    from planrunner.machine.scope import ResultScope  # late: few joins are expressions
    from planrunner.plan.expressions.conditions import EvaluationError, truth

    join = state.specs[number].join
    assert join.expression is not None
    if "" in standings:
        return "waiting", ""
    try:
        if truth(join.expression.tree, ResultScope(state, number)):
            return "met", ""
    except EvaluationError as error:
        return "failed", f"`{join.expression.text}` has no value: {error}"
    return "unmet", f"`{join.expression.text}` is false: {_tally(state, number)}"


def _any(standings: list[str], count: int) -> Verdict:
    return _at_least(standings, 1)


def _at_least(standings: list[str], count: int) -> Verdict:
    good = sum(standing in _GOOD for standing in standings)
    if good >= count:
        return "met"
    return "waiting" if good + standings.count("") >= count else "unmet"


def _all_done(standings: list[str], count: int) -> Verdict:
    return "waiting" if "" in standings else "met"


def _all_failed(standings: list[str], count: int) -> Verdict:
    if any(standing not in ("", "failed") for standing in standings):
        return "unmet"
    return "waiting" if "" in standings else "met"


def _one_failed(standings: list[str], count: int) -> Verdict:
    if "failed" in standings:
        return "met"
    return "waiting" if "" in standings else "unmet"


def _none_failed(standings: list[str], count: int) -> Verdict:
    if "failed" in standings or "cancelled" in standings:
        return "unmet"
    return "waiting" if "" in standings else "met"


_JOINS: dict[str, Callable[[list[str], int], Verdict]] = {
    "any": _any,
    "at_least": _at_least,
    "always": _all_done,
    "all_done": _all_done,
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
    "cancelled": "was cancelled",
}


def _word(standing: str) -> str:
    return _WORDS[standing]


def _join_text(state: State, number: int) -> str:
    join = state.specs[number].join
    return f"at_least: {join.count}" if join.kind == "at_least" else join.kind


def _tally(state: State, number: int) -> str:
    """Each need with its standing, the first few of many."""
    needs = state.shape.needs[number]
    shown = [f"`{state.specs[need].id}` {_word(state.tasks[need].standing)}" for need in needs[:6]]
    return ", ".join(shown) + (f" and {len(needs) - 6} more" if len(needs) > 6 else "")
