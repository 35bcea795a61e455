"""The kinds of joins: when the needs of a task are met. A row each; loader, lint, machine and pages read it.

A need stands as ``completed``, ``tolerated`` (it failed with leave, or was not selected), ``failed``, ``skipped``,
``omitted``, ``cut_off`` or ``cancelled``; the text is empty while that is not decided. A join that is an expression has
no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, get_args

from planrunner.plan.model import JoinKind
from planrunner.records import Struct

JoinVerdict = Literal["met", "unmet", "waiting"]
GOOD = frozenset({"completed", "tolerated"})
FAILED = frozenset({"failed", "cut_off"})
_ENDS = ("completed", "failed", "skipped", "omitted", "cut_off", "cancelled")


class JoinRule(Struct):
    """``verdict`` says it of the outcomes of the needs and of the count of ``at_least``. A ``tolerant`` join lets its
    task start though tasks beside it failed."""

    verdict: Callable[[Sequence[str], int], JoinVerdict]
    tolerant: bool = False


def _at_least(outcomes: Sequence[str], count: int) -> JoinVerdict:
    good = sum(outcome in GOOD for outcome in outcomes)
    if good >= count:
        return "met"
    return "waiting" if good + outcomes.count("") >= count else "unmet"


def _all_done(outcomes: Sequence[str], count: int) -> JoinVerdict:
    return "waiting" if "" in outcomes else "met"


def _all_failed(outcomes: Sequence[str], count: int) -> JoinVerdict:
    if any(outcome and outcome not in FAILED for outcome in outcomes):
        return "unmet"
    return "waiting" if "" in outcomes else "met"


def _one_failed(outcomes: Sequence[str], count: int) -> JoinVerdict:
    if any(outcome in FAILED for outcome in outcomes):
        return "met"
    return "waiting" if "" in outcomes else "unmet"


def _none_failed(outcomes: Sequence[str], count: int) -> JoinVerdict:
    if "cancelled" in outcomes or any(outcome in FAILED for outcome in outcomes):
        return "unmet"
    return "waiting" if "" in outcomes else "met"


JOINS: dict[JoinKind, JoinRule] = {
    "all": JoinRule(lambda outcomes, _: _at_least(outcomes, len(outcomes))),
    "any": JoinRule(lambda outcomes, _: _at_least(outcomes, 1)),
    "at_least": JoinRule(_at_least),
    "always": JoinRule(_all_done, tolerant=True),
    "all_done": JoinRule(_all_done, tolerant=True),
    "all_done_any": JoinRule(lambda found, _: "waiting" if "" in found else _at_least(found, 1), tolerant=True),
    "all_failed": JoinRule(_all_failed, tolerant=True),
    "one_failed": JoinRule(_one_failed, tolerant=True),
    "none_failed": JoinRule(_none_failed),
}

if missing := {*get_args(JoinKind)} ^ {*JOINS, "expression"}:
    raise TypeError(f"kinds of joins without a row, or rows without a kind: {', '.join(sorted(missing))}")

WORDS = tuple(kind for kind in JOINS if kind != "at_least")
"""The kinds that a plan names by one word."""

TOLERANT = frozenset(kind for kind, rule in JOINS.items() if rule.tolerant) | {"expression"}

ON_SUCCESS = frozenset(kind for kind, rule in JOINS.items() if rule.verdict(("completed",), 1) == "met")
"""The kinds that are met where every need completes; the others ask for failures."""

NEEDS_A_SUCCESS = frozenset(
    kind for kind, rule in JOINS.items() if all(rule.verdict((end,), 1) != "met" for end in _ENDS if end not in GOOD)
)
"""The kinds that are never met unless a need is good."""


@cache
def allowed(kind: JoinKind, count: int, needs: int) -> frozenset[str]:
    """The outcomes of one need with which a join over ``needs`` tasks may be met, where all others end alike."""
    verdict = JOINS[kind].verdict
    return frozenset(
        outcome
        for outcome in (*_ENDS, "tolerated")
        if any(verdict((outcome, *(end,) * (needs - 1)), count) == "met" for end in _ENDS)
    )
