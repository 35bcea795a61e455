"""When nothing is left to start: wait, park or end."""

from __future__ import annotations

from planrunner.machine.commands import End, Record
from planrunner.machine.events import FailureResolved, RunParked
from planrunner.machine.statuses import FINAL_STOPS, IllegalMove
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.machine.commands import Command
    from planrunner.machine.state import State
    from planrunner.machine.undoing import Debts


def finish(state: State) -> list[Command]:
    """Nothing to start and nothing to record: wait, park or end."""
    if state.asked or any(state.tasks[number].outcome is None for number in state.running):
        return []
    undoing = state.debts is not None and state.debts.active
    if state.open or state.finals_open or state.recovering or undoing:
        if state.stop_reason and state.stop_reason not in FINAL_STOPS:
            return [Record(RunParked(state.stop_reason))]
        return [] if _time_will_tell(state) or (state.attended and _asks_people(state)) else [_stuck(state)]
    if state.stop_reason in ("budget", "deadline"):
        return [End("failed", "budget")]
    if state.debts is not None and state.debts.status:
        return [_after_rollback(state, state.debts)]
    if state.stop_reason in FINAL_STOPS:
        return [End("cancelled", state.stop_reason)]
    return [End("failed", "failed") if state.failures else End("completed")]


def _after_rollback(state: State, debts: Debts) -> End:
    """A run that was undone did not complete, whatever it was before."""
    if debts.reason == "doubt":
        return End("failed", "failed") if state.failures else End("completed")
    return End("failed" if state.failures else "cancelled", debts.status)


def _time_will_tell(state: State) -> bool:
    """Something starts again by itself. The time limits of what waits for people keep no process."""
    if not state.timers:
        return False
    people = state.counts.get("blocked") or state.counts.get("in_doubt")
    return not people or any(state.tasks[number].status == "pending" for _, number in state.timers)


def _asks_people(state: State) -> bool:
    """A gate waits for people, one of whom is there."""
    return any(found.status == "blocked" and found.gate is not None and found.gate.waits for found in state.tasks)


def _stuck(state: State) -> Record:
    """Open tasks, and none that moves: they wait for a person, or for a handler that itself waits for the task it
    should recover. The latter recovers nothing, so the failure stands."""
    waiting = [task.id for task, found in zip(state.specs, state.tasks) if found.status in ("blocked", "in_doubt")]
    if waiting:
        return Record(RunParked("waiting", tuple(waiting)))
    if state.recovering:
        return Record(FailureResolved(state.specs[min(state.recovering)].id))
    open_tasks = [task.id for task, found in zip(state.specs, state.tasks) if not found.standing]
    raise IllegalMove(f"the run can neither go on nor end; undecided: {', '.join(open_tasks[:10])}")
