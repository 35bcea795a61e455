"""Which status may follow which: the only way a task or a run changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.machine.events import RunStatus, TaskStatus


TASK: dict[TaskStatus, frozenset[TaskStatus]] = {
    "pending": frozenset({"queued", "running", "blocked", "completed", "failed", "skipped", "omitted", "cancelled"}),
    "queued": frozenset({"running", "blocked", "failed", "skipped", "cancelled", "pending"}),
    "running": frozenset({"pending", "running", "blocked", "completed", "failed", "cancelled", "in_doubt"}),
    "in_doubt": frozenset({"queued", "running", "in_doubt", "pending", "completed", "failed", "cancelled"}),
    "blocked": frozenset({"pending", "queued", "running", "completed", "failed", "skipped", "cancelled", "abandoned"}),
    "completed": frozenset({"rolled_back", "pending", "running"}),
    "failed": frozenset({"rolled_back", "pending", "running"}),
    "skipped": frozenset({"pending"}),
    "omitted": frozenset({"pending"}),
    "cancelled": frozenset({"rolled_back", "pending", "running"}),
    "abandoned": frozenset({"rolled_back", "pending"}),
    "rolled_back": frozenset({"pending"}),
}
"""``running`` to ``pending`` is a retry that waits for its time, ``running`` to ``running`` the same attempt issued
again after a crash; a settled task is pending again when it begins
anew, and running again when something inside it does."""

RUN: dict[RunStatus, frozenset[RunStatus]] = {
    "pending": frozenset({"running"}),
    "running": frozenset({"running", "paused", "blocked", "completed", "failed", "cancelled"}),
    "paused": frozenset({"running", "cancelled"}),
    "blocked": frozenset({"running", "cancelled"}),
    "completed": frozenset({"paused"}),
    "failed": frozenset({"paused"}),
    "cancelled": frozenset({"paused"}),
}
"""An ended run is reopened as one that is paused, and resumed."""

STOPS: dict[str, int] = {
    "": 0,
    "pause": 1,
    "interrupted": 2,
    "terminated": 2,
    "storage": 2,
    "budget": 3,
    "time": 4,
    "deadline": 4,
    "rollback": 5,
    "cancelled": 5,
    "killed": 6,
}
"""Why nothing starts any more; a stop gives way only to a graver one."""

OUT_OF_BUDGET: frozenset[str] = frozenset({"budget", "time", "deadline"})
"""Limits of the plan that end the run: a budget is used up (what runs may end), or that of time, or the deadline has
passed (what runs is stopped)."""

FINAL_STOPS: frozenset[str] = OUT_OF_BUDGET | {"rollback", "cancelled", "killed"}
"""After these the run is not parked but comes to its end."""

SETTLED: frozenset[TaskStatus] = frozenset(
    {"completed", "failed", "skipped", "omitted", "cancelled", "abandoned", "rolled_back"}
)
"""Statuses in which a task asks for nothing any more."""


_SAID = {
    "completed": "completed",
    "failed": "failed",
    "skipped": "was skipped",
    "omitted": "was omitted",
    "cancelled": "was cancelled",
    "abandoned": "was abandoned",
    "rolled_back": "was rolled back",
    "in_doubt": "is in doubt",
}


def said(status: str) -> str:
    """A status as the verb of a sentence: ``failed``, ``was skipped``, ``is running``."""
    return _SAID.get(status) or f"is {status}"


def ended(run: str, status: str) -> str:
    """The sentence for a run that cannot do what was asked, since it has ended."""
    return f"{run} {'was already' if status == 'cancelled' else 'has already'} {status}"


class IllegalMove(Exception):
    """A status change that the tables do not have: a bug of the engine or a journal that was tampered with."""


def check_task(task: str, old: TaskStatus, new: TaskStatus) -> None:
    """Raises IllegalMove unless a task may go from ``old`` to ``new``."""
    if new not in TASK[old]:
        raise IllegalMove(f"task `{task}` cannot go from {old} to {new}")


def check_run(old: RunStatus, new: RunStatus) -> None:
    """Raises IllegalMove unless a run may go from ``old`` to ``new``."""
    if new not in RUN[old]:
        raise IllegalMove(f"the run cannot go from {old} to {new}")
