"""Runs that nothing acts on: whether one was cut off, waits or is decided, and what is said about attempts in doubt."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planrunner.errors import NextStep, UsageError
from planrunner.later import Later
from planrunner.machine.events import DoubtSettled, LeftAlone, RollbackStarted, TasksReset
from planrunner.machine.names import named, owners
from planrunner.machine.state import State
from planrunner.statuses import status_verb

if TYPE_CHECKING:
    from planrunner.app.plans.tasks import task_number
    from planrunner.machine.admission import wanted
    from planrunner.machine.gates import sentence
    from planrunner.machine.rework import reset_event, retried
    from planrunner.machine.rollback import undoing
else:
    task_number = Later("planrunner.app.plans.tasks:task_number")
    wanted = Later("planrunner.machine.admission:wanted")
    sentence = Later("planrunner.machine.gates:sentence")
    reset_event = Later("planrunner.machine.rework:reset_event")
    retried = Later("planrunner.machine.rework:retried")
    undoing = Later("planrunner.machine.rollback:undoing")


def answers(state: State, settle: Sequence[tuple[str, str]], by: str) -> list[DoubtSettled | RollbackStarted]:
    """What a person said about attempts of unknown end. A task that holds others stands for what is in doubt inside
    it, and ``*`` in a path for any text without a slash (``fan[*]``). ``all``, where no task has that name, stands for
    every task in doubt, also where there is none. What is said later of the same task counts.

    Raises NotFound for a task that there is not and UsageError where there is no doubt to settle.
    """
    said: dict[int, str] = {}
    for task, resolution in settle:
        if resolution not in ("retry", "completed", "failed", "rollback"):
            raise UsageError(f"`{resolution}` settles nothing", "say retry, completed, failed or rollback")
        said |= dict.fromkeys(_doubtful(state, task), resolution)
    answered: list[DoubtSettled | RollbackStarted] = []
    for number, resolution in said.items():
        task = state.specs[number].id
        if resolution != "rollback":
            answered.append(DoubtSettled(task, state.tasks[number].attempts, resolution, by))  # type: ignore[arg-type]
        elif (event := undoing(state, number, by)) is not None:
            answered.append(event)
        else:
            raise UsageError(f"task `{task}` does not say how it is undone", NextStep("why", state.run_id, task))
    return answered


def _doubtful(state: State, wanted: str) -> list[int]:
    """The tasks in doubt that a path, a pattern or ``all`` names."""
    if wanted == "all" and not named(state, wanted):
        return _doubts(state)
    if "*" in wanted:
        written = re.compile("(?:.*/)?" + r"[^/]*".join(map(re.escape, wanted.split("*"))))
        result = [number for number in _doubts(state) if written.fullmatch(state.specs[number].id)]
        if not result:
            raise UsageError(f"no task in doubt fits `{wanted}`", NextStep("show", state.run_id))
        return result
    number = task_number(state, wanted)
    if number not in _doubts(state):
        result = [each for each in _doubts(state) if number in owners(state, each)]
        if not result:
            status = status_verb(state.tasks[number].status)
            raise UsageError(
                f"nothing inside `{wanted}` is in doubt"
                if number in state.containers
                else f"task `{wanted}` is not in doubt: it {status}",
                NextStep("why", state.run_id, wanted),
            )
        return result
    return [number]


def _doubts(state: State) -> list[int]:
    """The tasks whose last attempt has an unknown end; a container is never in doubt itself."""
    return [
        number
        for number, task_state in enumerate(state.tasks)
        if task_state.status in ("in_doubt", "running") and number not in state.containers
    ]


def left_alone() -> tuple[LeftAlone, ...]:
    """The event of an unattended run, until it is resumed."""
    return (LeftAlone(),)


def with_more(state: State, by: str) -> list[TasksReset]:
    """The tasks to reset in a run that had ended and got a larger budget since."""
    if (state.status, state.reason) != ("paused", "budget"):
        return []
    return [reset_event(state, retried(state, ()), "retry", by)]


DECIDED = "decided"
"""The reason of a run, and of its tasks, that is fully decided: a resume continues it."""

_THEN = "resuming the run continues with it"


def rest(state: State) -> dict[int, str]:
    """Give the state of a run without a lease the status, reason and details that every command shows.

    What people have decided since the run was parked is taken up when it is resumed; the tasks that wait for that, by
    number, with what was decided. A run is decided when no question is open.
    """
    if state.status == "running":
        state.status, state.reason = "paused", "cut off"
    blocked = state.counts.get("blocked", 0)
    if not blocked or state.ended_at is not None:
        return {}
    decisions = {
        number: sentence(task.gate)
        for number, task in enumerate(state.tasks)
        if task.status == "blocked" and task.gate is not None and task.gate.verdict and not task.gate.decision
    }
    if state.ledger is not None:  # tasks that waited for a budget which was extended, or will not be
        waiting = {name for limit in wanted(state, time.time()) for name in limit.tasks}
        words = "refused more budget" if state.ledger.refused else "given more budget"
        decisions |= {
            number: words
            for number, task in enumerate(state.tasks)
            if task.status == "blocked" and task.reason == "budget" and state.specs[number].id not in waiting
        }
    for number, decision in decisions.items():
        task = state.tasks[number]
        task.reason, task.detail = DECIDED, f"{decision}; {_THEN}"
    if state.status == "blocked" and len(decisions) == blocked and not state.counts.get("in_doubt"):
        state.status, state.reason = "paused", DECIDED
    return decisions
