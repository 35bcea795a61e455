"""What follows when a run is taken up: what people say about attempts whose end nobody saw, that nobody is there to
ask, and what begins anew with a larger budget."""

from __future__ import annotations

from collections.abc import Sequence

from planrunner.app.tasknames import task_number
from planrunner.errors import UsageError
from planrunner.machine.events import DoubtSettled, LeftAlone, RollbackStarted, TasksReset
from planrunner.machine.rollback import undoing
from planrunner.machine.state import State


def answers(state: State, settle: Sequence[tuple[str, str]], by: str) -> list[DoubtSettled | RollbackStarted]:
    """What a person said about attempts of unknown end; raises NotFound for a task that there
    is not and UsageError where there is no doubt to settle."""
    found_answers: list[DoubtSettled | RollbackStarted] = []
    for task, resolution in settle:
        number = task_number(state, task)
        found = state.tasks[number]
        if found.status not in ("in_doubt", "running"):
            raise UsageError(
                f"task `{task}` is not in doubt: it is {found.status}", f"planrunner why {state.run_id} {task}"
            )
        if resolution == "rollback":
            found_answers.append(_undone(state, number, by))
            continue
        if resolution not in ("retry", "completed", "failed"):
            raise UsageError(f"`{resolution}` settles nothing", "say retry, completed, failed or rollback")
        found_answers.append(DoubtSettled(state.specs[number].id, found.attempts, resolution, by))  # type: ignore[arg-type]
    return found_answers


def _undone(state: State, number: int, by: str) -> RollbackStarted:
    event = undoing(state, number, by)
    if event is None:
        task = state.specs[number].id
        raise UsageError(f"task `{task}` does not say how it is undone", f"planrunner why {state.run_id} {task}")
    return event


def left_alone() -> tuple[LeftAlone, ...]:
    """Nobody is there to ask until the run is taken up again."""
    return (LeftAlone(),)


def with_more(state: State, by: str) -> list[TasksReset]:
    """What a run that had ended and got a larger budget since begins anew."""
    if (state.status, state.reason) != ("paused", "budget"):
        return []
    from planrunner.machine.rerun import reset_event, retried  # late: few runs have limits

    return [reset_event(state, retried(state, ()), "retry", by)]
