"""Keeps tasks in the working directory of their run: outside of it they act only where somebody said so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planrunner.machine.events import Outcome
from planrunner.plan.patterns import path_matches

if TYPE_CHECKING:
    from planrunner.capabilities.contract import Call


RULE = "trust.outside"


def strayed(call: Call, root: str, allowed: Sequence[str]) -> Outcome | None:
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
            return Outcome("policy", _message(what, real, home), rule=RULE)
    return None


def _message(what: str, real: str, home: str) -> str:
    return (
        f"it {what} {real}, outside the project {home}: `planrunner exec --allow-outside {real}` lets it, or in"
        f" planrunner.yaml `policy: {{files: {{write: ['**', {real}]}}}}`"
    )
