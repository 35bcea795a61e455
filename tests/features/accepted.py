"""What lint is right to refuse where two features meet, and which faults are known."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from features.marriages import Marriage


class Refusal(NamedTuple):
    """A rule that refuses some marriages. ``first`` and ``second`` are the features that it may concern, empty for any;
    ``ways`` are how they meet."""

    code: str
    reason: str
    first: Collection[str] = ()
    second: Collection[str] = ()
    ways: Collection[str] = ("inside", "on", "beside", "after")

    def covers(self, marriage: Marriage, code: str) -> bool:
        """Whether the rule may refuse a marriage, or any two of it where there are more."""
        names = marriage.names
        firsts, seconds = (names[:-1], names[1:]) if len(names) > 1 else (names, names)
        return (
            code == self.code
            and (not self.first or any(name in self.first for name in firsts))
            and (not self.second or any(name in self.second for name in seconds))
            and (not marriage.ways or any(way in self.ways for way in marriage.ways))
        )


LETS_GO_ON = ("allow-failure", "retry-on", "timebox", "budget-attempts")
GATES = (
    "approval",
    "decision",
    "choose",
    "question",
    "window",
    "gate-rework",
    "reject-to",
    "expiry",
    "escalate",
    "checks",
    "words",
)
HOLDERS = (
    *("foreach", "foreach-tolerate", "loop-carry", "loop-until", "loop-until-ok"),
    *("matrix", "subplan", "subplan-file", "subplan-named"),
)
OF_WORK = ("retry", "retry-on", "timeout", "timebox", "backup", "env", "policy", "budget-cost", "delay")
REFUSALS = (
    Refusal("PLAN611", "a gate whose task may fail stops nothing by a rejection", LETS_GO_ON, GATES, ("on",)),
    Refusal(
        "PLAN611", "what comes last runs after a rejection", ("foreach-tolerate", "loop-until-ok"), GATES, ("inside",)
    ),
    Refusal("PLAN801", "the task gives up all hosts and asks one", ("policy",), ("http", "breaker"), ("on",)),
    Refusal(
        "PLAN021",
        "people do the task, or the tasks inside it do the work",
        OF_WORK,
        (*GATES, *HOLDERS, "commands", "iterations", "agent"),
        ("on",),
    ),
    Refusal("PLAN021", "the breakers of a linked plan do not count", ("subplan-file",), ("breaker",), ("inside",)),
    Refusal("PLAN204", "what may fail or be skipped gives no output", (*LETS_GO_ON, "when-false"), (), ("on",)),
    Refusal(
        "PLAN204",
        "what may fail or be skipped gives no output",
        ("outputs",),
        (*LETS_GO_ON, "failure-modes", "breaker"),
        ("on",),
    ),
    Refusal("PLAN006", "only the plan itself is ended by a task", HOLDERS, ("ends-plan",), ("inside",)),
    Refusal("PLAN110", "a task follows the exit", ("foreach-tolerate", "loop-until-ok"), ("exit-role",), ("inside",)),
    Refusal("PLAN020", "services belong to the outermost plan", ("subplan-file",), ("services",), ("inside",)),
    Refusal(
        "PLAN004",
        "people are asked later by a gate that needs a task which waits",
        ("delay",),
        (*GATES, "judge"),
        ("on",),
    ),
)
KNOWN: dict[str, str] = {}
"""Faults that stand, by the id of a marriage that shows them: a word of the sentence. Mended ones are taken out."""


def unexpected(marriage: Marriage, refused: Collection[str]) -> list[str]:
    """The refusals that no rule of the table explains."""
    return [f"refused: {each}" for each in refused if not any(rule.covers(marriage, _code(each)) for rule in REFUSALS)]


def _code(said: str) -> str:
    """The code of a finding; of one about a linked plan that has an error the code of that."""
    inner = re.match(r"PLAN112: .* has an error: line \d+ (PLAN\d{3}) ", said)
    return inner[1] if inner else said[:7]
