"""What people say about attempts whose end nobody saw."""

from __future__ import annotations

from collections.abc import Sequence

from planrunner.app.tasknames import task_number
from planrunner.errors import UsageError
from planrunner.machine.events import DoubtSettled
from planrunner.machine.state import State


def answers(state: State, settle: Sequence[tuple[str, str]], by: str) -> list[DoubtSettled]:
    """What a person said about attempts of unknown end; raises UsageError where there is no doubt to settle."""
    found_answers = []
    for task, resolution in settle:
        number = task_number(state, task, UsageError)
        found = state.tasks[number]
        if found.status not in ("in_doubt", "running"):
            raise UsageError(
                f"task `{task}` is not in doubt: it is {found.status}", f"planrunner why {state.run_id} {task}"
            )
        if resolution not in ("retry", "completed", "failed"):
            raise UsageError(f"`{resolution}` settles nothing", "say retry, completed or failed")
        found_answers.append(DoubtSettled(state.specs[number].id, found.attempts, resolution, by))  # type: ignore[arg-type]
    return found_answers
