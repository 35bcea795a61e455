"""How a run and its tasks stand, in words and numbers: what lines about them have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.machine.paths import by_its_own, replaced_tasks

if TYPE_CHECKING:
    from planrunner.machine.state import State, TaskState
    from planrunner.plan.model import Task

Json = Any


def shown_status(state: State, found: TaskState) -> str:
    """The status as people may be told it: no task runs while nobody acts on the run.

    An attempt that was cut off or stopped half-way is in doubt until a resumed run settles it by its effect class. A
    task that holds others does nothing itself: it waits with them.
    """
    if is_decided(found):
        return "paused"
    if found.status != "running" or not is_resting(state):
        return found.status
    if found.inner is not None:
        return "blocked" if state.status == "blocked" else "paused"
    return "paused" if is_done(found) else "in_doubt"


def is_decided(found: TaskState) -> bool:
    """Whether people have said what a task waited for, and the run was not resumed since."""
    return found.status == "blocked" and found.reason == "decided"


def is_done(found: TaskState) -> bool:
    """Whether the work of a task is done, and its files were to be kept when the runner died."""
    return found.outcome is not None and not found.outcome.failure


def outputs_of(found: TaskState) -> dict[str, Json]:
    """What a task gave; of one that failed what its last attempt gave all the same, such as counts of tests or the
    status of an answer, and where another stood in for it what that one gave."""
    failed = found.status == "failed" or (found.status == "rolled_back" and found.standing == "failed")
    if found.outcome is None or found.recovered_by or not failed:
        return found.outputs
    return found.outcome.outputs


def is_dry(state: State) -> bool:
    """Whether a run only happens on paper: nothing of it is done, nothing is kept."""
    return bool(state.environment.get("dry_run"))


def is_resting(state: State) -> bool:
    """Whether nobody acts on the run: it is parked, was cut off, or has ended."""
    return state.status not in ("pending", "running")


def shown_counts(state: State) -> dict[str, int]:
    """How many tasks there are of each status, as ``shown_status`` gives it. A task that stands for those it holds is
    not counted beside them, unless it failed by itself; what a later attempt has replaced is not counted at all."""
    counts: dict[str, int] = dict(state.counts.items())
    replaced: set[int] = set()
    if state.gone is not None or any(state.tasks[number].attempts > 1 for number in state.holders):
        replaced = replaced_tasks(state)
    for number in replaced:
        counts[state.tasks[number].status] -= 1
    for number in state.holders.keys() - replaced:
        found = state.tasks[number]
        if found.inner is not None and found.inner.size and not _own_trouble(state, number):
            counts[found.status] -= 1
    if counts.get("blocked") and is_resting(state):
        decided = sum(map(is_decided, state.tasks))
        counts["blocked"] -= decided
        counts["paused"] = counts.get("paused", 0) + decided
    if is_resting(state) and state.checkpoints is not None and counts.get("running"):
        done = sum(shown_status(state, found) == "paused" and found.inner is None for found in state.tasks)
        counts["running"] -= done
        counts["paused"] = counts.get("paused", 0) + done
    if is_resting(state) and counts.get("running"):
        counts["in_doubt"] = counts.get("in_doubt", 0) + counts.pop("running")
    return counts


def _own_trouble(state: State, number: int) -> bool:
    return state.tasks[number].status in ("failed", "in_doubt", "blocked") and by_its_own(state, number)


def pairs(state: State) -> Iterator[tuple[Task, TaskState]]:
    """Each task with its state, in the order of the plan."""
    return zip(state.specs, state.tasks, strict=True)


def waiting(state: State) -> list[str]:
    """The tasks that wait for a person or an answer."""
    counts = state.counts
    if not (counts.get("blocked") or counts.get("in_doubt")):
        return []
    return [
        task.id
        for task, found in pairs(state)
        if found.status == "in_doubt" or (found.status == "blocked" and not is_decided(found))
    ]


NAMED = 8
"""Tasks that a line lists by name."""


def listed(names: Sequence[str]) -> str:
    """``a, b``; of many names the first few and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def attempt_text(task: Task, attempt: int, past: int = 0) -> str:
    """``attempt 2 of 3``, or nothing where there is only one; ``past`` ones were made before the task began anew."""
    allowed, attempt = task.retry.attempts, attempt - past
    return f"attempt {attempt} of {max(allowed, attempt)}" if allowed > 1 or attempt > 1 else ""


def elapsed(found: TaskState, now: float) -> float:
    """Seconds from the start of the first attempt to the end of the last one, or to ``now`` while the task goes on,
    without those in which no process acted on the run."""
    if found.started is None:
        return 0.0
    going = found.status in ("running", "pending", "queued") or found.ended is None
    return max(0.0, (now if going else found.ended or now) - found.started - found.idle)
