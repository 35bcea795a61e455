"""Whether a call may be made: its rights, judged once more when every template is filled in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from planrunner.machine.events import Outcome
from planrunner.plan.policy_checks import Wanted, assigned, placed, refusal, uses, variables
from planrunner.plan.rights import Right, Use
from planrunner.plan.shell.commands import commands

if TYPE_CHECKING:
    from planrunner.capabilities.contract import Call


def refused_right(call: Call, top: str) -> Outcome | None:
    """The outcome of a call that its rights do not allow; None for one that may be made. What is to be asked for was
    asked before the attempt began. ``top`` is where the run works, from which relative paths of a policy count."""
    for wanted, right in _judged(call, top):
        if right.verdict == "deny":
            return Outcome("policy", refusal(wanted, right), rule=right.rule)
    return None


def _judged(call: Call, top: str) -> Iterator[tuple[Wanted, Right]]:
    runs: tuple[tuple[str, ...], ...] | None = None
    if call.arguments:
        runs = (call.arguments,)
    elif call.script:
        runs = commands(call.script, call.values, call.task.shell)
    script = bool(call.script or call.arguments)
    elsewhere = bool(call.task.cwd) and os.path.abspath(call.directory) != os.path.abspath(top)
    use = Use(call.task.uses, call.inputs, runs, script, final=True, text=call.script)
    yield from uses(call.rights, placed(use, call.env, elsewhere))
    within = assigned(call.rights, call.arguments or call.script or None, call.task.shell)
    yield from variables(call.rights, dict.fromkeys((*call.env, *within)))
