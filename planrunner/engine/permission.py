"""Whether a call may be made: its rights allow all that it names, and it stays within the directory of the run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from planrunner.capabilities.contract import Call
from planrunner.capabilities.files.scope import BRANCHES
from planrunner.files.match import path_matches
from planrunner.machine.events import Outcome
from planrunner.plan.policy_checks import assigned, placed, refusal, uses, variables
from planrunner.plan.rights import CapabilityUse
from planrunner.plan.shell.commands import commands


def denied(call: Call, top: str) -> Outcome | None:
    """The outcome of a call that its rights do not allow; None for one that may be made. What is to be asked for was
    asked before the attempt began. ``top`` is where the run works, from which relative paths of a policy count."""
    runs: tuple[tuple[str, ...], ...] | None = None
    if call.arguments:
        runs = (call.arguments,)
    elif call.script:
        runs = commands(call.script, call.values, call.task.shell)
    script = bool(call.script or call.arguments)
    elsewhere = bool(call.task.cwd) and os.path.abspath(call.directory) != os.path.abspath(top)
    use = CapabilityUse(call.task.uses, call.inputs, runs, script, final=True, text=call.script)
    within = assigned(call.rights, call.arguments or call.script or None, call.task.shell)
    named = variables(call.rights, dict.fromkeys((*call.env, *within)))
    for wanted, right in (*uses(call.rights, placed(use, call.env, elsewhere)), *named):
        if right.verdict == "deny":
            return Outcome("policy", refusal(wanted, right), rule=right.rule)
    return None


def is_gone(call: Call, top: str) -> bool:
    """Whether a call works in the tree of a candidate (``branch.fork``) that was removed, with all that was done
    there."""
    return os.path.relpath(call.directory, top).split("/")[0] == BRANCHES and not os.path.isdir(call.directory)


def outside_directory(call: Call, root: str, allowed: Sequence[str]) -> Outcome | None:
    """The refusal of a call that would work outside ``root``, or take an output from there, in a place that none of the
    ``allowed`` patterns fits; None for any other. Links count as what they lead to."""
    if not root:
        return None
    home = os.path.realpath(root)
    places = [("works in", call.directory)] if call.task.cwd else []
    places += [
        ("takes an output from", os.path.join(call.directory, each.path)) for each in call.task.outputs if each.path
    ]
    for what, place in places:
        real = os.path.realpath(place)
        inside = real == home or real.startswith(f"{home.rstrip('/')}/")
        if not inside and not any(path_matches(pattern, real) for pattern in allowed):
            message = (
                f"it {what} {real}, outside the project {home}: `planrunner exec --allow-outside {real}` lets it, or in"
                f" planrunner.yaml `policy: {{files: {{write: ['**', {real}]}}}}`"
            )
            return Outcome("policy", message, rule="trust.outside")
    return None
