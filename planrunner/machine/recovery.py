"""What becomes of an attempt whose end nobody saw, by the effect class of what it did.

``pure``, ``read`` and ``idempotent`` (keyed) attempts are issued again: the same attempt with the same key, not
charged to
the retries. A ``checkable`` one is probed first. An ``unsafe`` one is never repeated on planrunner's own account: the
task's ``on_doubt`` says what to do, and where it says nothing a person is asked. Where nobody is there (the run goes on
unattended) what can be undone is undone instead, and the task fails.
"""

from __future__ import annotations

from planrunner.machine.commands import AskProbe, Record, Start
from planrunner.machine.events import TaskSettled
from planrunner.machine.state import State
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.machine.commands import Command


def recover(state: State, number: int) -> Command | None:
    """The way on for an uncertain attempt; None while it waits for an answer."""
    task = state.specs[number]
    found = state.tasks[number]
    if found.status == "in_doubt" and found.reason in ("ask", "rollback"):
        return None
    effect = state.trait(task).effect
    if found.reason == "retry" or task.on_doubt == "retry" or effect in ("pure", "read", "idempotent"):
        return Start(number, found.attempts, found.reissues + 1)
    if task.on_doubt == "fail":
        detail = f"attempt {found.attempts} was cut off and `on_doubt` is fail"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    if state.trait(task).probe and task.on_doubt in ("", "probe") and found.reason != "unknown":
        return AskProbe(number, found.attempts)
    if task.on_doubt == "rollback" or (state.unattended and task.on_doubt in ("", "probe")):
        from planrunner.machine.rollback import by_doubt  # late: few doubts are settled that way

        if command := by_doubt(state, number):
            return command
    told = "; the probe could not tell" if found.reason == "unknown" else ""
    detail = f"attempt {found.attempts} was cut off; whether it took effect is not known{told}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))
