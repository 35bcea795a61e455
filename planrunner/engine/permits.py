"""Whether a call may be made: its rights, judged once more when every template is filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.machine.events import Outcome
from planrunner.plan.commandlist import commands
from planrunner.plan.judging import refusal, uses, variables
from planrunner.plan.rights import Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planrunner.capabilities.contract import Call
    from planrunner.plan.judging import Wanted
    from planrunner.plan.rights import Right


def refused(call: Call) -> Outcome | None:
    """The outcome of a call that its rights do not allow; None for one that may be made. What is to be asked for was
    asked before the attempt began."""
    for wanted, right in _judged(call):
        if right.verdict == "deny":
            return Outcome("policy", refusal(wanted, right), rule=right.rule)
    return None


def _judged(call: Call) -> Iterator[tuple[Wanted, Right]]:
    runs: tuple[tuple[str, ...], ...] | None = None
    if call.arguments:
        runs = (call.arguments,)
    elif call.script:
        runs = commands(call.script, call.values, call.task.shell)
    script = bool(call.script or call.arguments)
    yield from uses(call.rights, Use(call.task.uses, call.inputs, runs, script, final=True))
    yield from variables(call.rights, call.env)
