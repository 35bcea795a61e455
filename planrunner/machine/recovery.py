"""What becomes of an attempt whose end nobody saw, by the effect class of what it did.

``pure``, ``read`` and ``idempotent`` (keyed) attempts are issued again: the same attempt with the same key, not
charged to
the retries. A ``checkable`` one is probed first. An ``unsafe`` one is never repeated on planrunner's own account: the
task's ``on_doubt`` says what to do, and where it says nothing a person is asked. Where nobody is there (the run goes on
unattended) what can be undone is undone instead, and the task fails.
"""

from __future__ import annotations

from typing import Any

from planrunner.machine.commands import AskProbe, Command, Record, Start
from planrunner.machine.events import DoubtSettled, TaskSettled
from planrunner.machine.ledger import amount
from planrunner.machine.rollback import undoing
from planrunner.machine.state import State
from planrunner.machine.statuses import FINAL_STOPS

BY_RULE = "the stop that was under way"
"""Who settles the doubt about an attempt that was being stopped for good when its runner died."""


def reissue(state: State, number: int) -> Start:
    """The same attempt once more; what it has set aside is still there."""
    found = state.tasks[number]
    reserved: dict[str, Any] = {}
    if state.ledger is not None:
        holding = state.ledger.holdings.get(number, {})
        reserved = {what: amount(what, held) for what, held in holding.items() if held}
    return Start(number, found.attempts, found.reissues + 1, reserved, number in state.degraded)


def recover(state: State, number: int) -> Command | None:
    """The way on for an uncertain attempt; None while it waits for an answer."""
    task = state.specs[number]
    found = state.tasks[number]
    if found.status == "in_doubt" and found.reason in ("ask", "rollback"):
        return None
    if state.alarms is not None and (known := state.alarms.stopping.get(number)):
        return Record(DoubtSettled(task.id, found.attempts, "failed", BY_RULE, known[0]))
    effect = state.trait(task).effect
    if found.reason == "retry" or task.on_doubt == "retry" or effect in ("pure", "read", "idempotent"):
        return reissue(state, number)
    if task.on_doubt == "fail":
        detail = f"attempt {found.attempts} was cut off and `on_doubt` is fail"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    if state.trait(task).probe and task.on_doubt in ("", "probe") and found.reason != "unknown":
        waits = number in state.asked or state.stop_reason not in ("", *FINAL_STOPS)
        return None if waits else AskProbe(number, found.attempts)
    undoes = task.on_doubt == "rollback" or (state.unattended and task.on_doubt in ("", "probe"))
    if undoes and (event := undoing(state, number)):
        return Record(event)
    told = f"; {found.detail}" if found.reason == "unknown" else ""
    detail = f"attempt {found.attempts} was cut off; whether it took effect is not known{told}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))
