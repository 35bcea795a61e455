"""What stays of a task that may keep its result when it begins anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.machine.events import Outcome
    from planrunner.machine.frame import Frame
    from planrunner.machine.gate import GateState


class Kept(NamedTuple):
    """How the visit ``visit`` of the task ``number`` ended, and the digest of what it was called with. A task that
    holds others has instead the ``frame`` that it opened last, whose tasks are compared one by one; with ``by_call``
    an equal call is enough for each of them. Where the plan was revised ``since`` is the time of that: an equal call is
    enough for what comes after nothing that ran since. ``gate`` is what people said at a gate."""

    number: int
    visit: int
    inputs: str = ""
    outcome: Outcome | None = None
    frame: Frame | None = None
    by_call: bool = False
    since: float | None = None
    gate: GateState | None = None
