"""Statuses: which may follow which, and the small changes of state that events are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.machine.events import TaskStatus
from planrunner.machine.graph import Frame
from planrunner.machine.names import owners
from planrunner.machine.policies import has_next
from planrunner.machine.state import DependencyOutcome, State, TaskState
from planrunner.machine.stops import main_part_done, was_called_off

if TYPE_CHECKING:
    from planrunner.machine.events import RunStatus

TASK: dict[TaskStatus, frozenset[TaskStatus]] = {
    "pending": frozenset({"queued", "running", "blocked", "completed", "failed", "skipped", "omitted", "cancelled"}),
    "queued": frozenset({"running", "blocked", "failed", "skipped", "cancelled", "pending"}),
    "running": frozenset({"pending", "running", "blocked", "completed", "failed", "cancelled", "in_doubt"}),
    "in_doubt": frozenset({"queued", "running", "in_doubt", "pending", "blocked", "completed", "failed", "cancelled"}),
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
again after a crash; a settled task is pending again when it is reset
and running again when something inside it does."""

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

SETTLED: frozenset[TaskStatus] = frozenset(
    {"completed", "failed", "skipped", "omitted", "cancelled", "abandoned", "rolled_back"}
)
"""Statuses in which a task asks for nothing any more."""


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


def move(state: State, number: int, task: TaskState, new: TaskStatus) -> None:
    """Change the status of a task; raises IllegalMove where the table has no such change."""
    old = task.status
    if new not in TASK[old]:
        check_task(state.specs[number].id, old, new)
    task.status = new
    counts = state.counts
    counts[old] -= 1
    counts[new] = counts.get(new, 0) + 1


def take_slot(state: State, number: int) -> None:
    if number in state.running or number in state.containers:
        return
    state.running[number] = None
    task = state.specs[number]
    if not state.trait(task).instant:
        state.slots += 1
        for label in state.limited_labels(task):
            state.labels_running[label] = state.labels_running.get(label, 0) + 1


def free_slot(state: State, number: int) -> None:
    if number not in state.running:
        return
    del state.running[number]
    task = state.specs[number]
    if not state.trait(task).instant:
        state.slots -= 1
        for label in state.limited_labels(task):
            state.labels_running[label] -= 1


_OUTCOMES: dict[str, DependencyOutcome] = {
    "completed": "completed",
    "skipped": "skipped",
    "cancelled": "cancelled",
    "abandoned": "cancelled",
}

_OMITTED: dict[str, DependencyOutcome] = {"cut_off": "cut_off", "cancelled": "cancelled"}
"""What an omitted task stands as by the reason that it was omitted for; see ``joins.omit``."""


def follow_status(state: State, number: int, status: TaskStatus) -> None:
    """What a task that is settled counts as for those after it; one with handlers that may recover it has to wait."""
    task = state.specs[number]
    if status == "omitted":
        set_dependency_outcome(state, number, _OMITTED.get(state.tasks[number].reason, "omitted"))
    elif status != "failed":
        off = status == "abandoned" or (status == "cancelled" and was_called_off(state, number))
        set_dependency_outcome(state, number, "tolerated" if task.allow_failure and off else _OUTCOMES[status])
    elif state.tasks[number].reason in ("edge", "route"):  # no work that failed: where the run goes is unknown
        set_dependency_outcome(state, number, "failed")
    elif task.allow_failure:
        set_dependency_outcome(state, number, "tolerated")
    elif any(route.edge.recovers for route in state.shape.routes_out.get(number, ())):
        state.recovering[number] = None
        offer_routes(state, number)
    elif state.recovering and has_next(state, number):
        set_dependency_outcome(state, number, "skipped")
    else:
        set_dependency_outcome(state, number, "failed")


def set_dependency_outcome(state: State, number: int, outcome: DependencyOutcome) -> None:
    """Give a task its outcome and wake those whose start may now be decided."""
    tasks, candidates = state.tasks, state.candidates
    task = tasks[number]
    task.dependency_outcome = outcome
    if outcome == "failed":
        frame = task.frame
        before = frame.failing
        frame.failures.append(number)
        if frame.failing and not before:
            state.failing += 1
            wake(state, frame)
        elif frame.failing and _overlooks_failures(state, frame):
            wake(state, frame)  # what was reset beside the earlier failures is cut off by this one
    good = outcome in ("completed", "tolerated")
    uncounted = state.shape.uncounted
    for other in state.shape.dependents[number]:
        task_state = tasks[other]
        if task_state.status not in ("pending", "queued"):
            continue
        if other not in uncounted:
            if good:
                task_state.missing -= 1
                if task_state.missing and task_state.broken < 0:
                    continue
            elif task_state.broken < 0:
                task_state.broken = number
        candidates[other] = None
    if task.frame.kind == "items":
        wake_waiting(state, task.frame.owner)
    if state.shape.routes_out:
        offer_routes(state, number)


def wake_waiting(state: State, family: int) -> None:
    """Look again at the tasks that need single items of a fan-out."""
    for other in state.shape.dependents[family]:
        if state.tasks[other].status == "pending" and state.specs[other].join.named:
            state.candidates[other] = None


def _overlooks_failures(state: State, frame: Frame) -> bool:
    """Whether a task of a frame was reset beside failures of it, which does not keep that task from beginning."""
    return any(each.overlooks for each in state.tasks[frame.first : frame.first + frame.size])


def wake(state: State, frame: Frame) -> None:
    """Look again at whatever of a frame, and of the frames inside it, has not begun or holds others. What is inside
    came later, so its numbers are higher."""
    tasks = state.tasks
    for number in range(frame.first, len(tasks)):
        if tasks[number].status in ("pending", "queued", "blocked") or number in state.containers:
            state.candidates[number] = None


def offer_routes(state: State, number: int) -> None:
    for route in state.shape.routes_out.get(number, ()):
        if state.tasks[route.target].status == "pending":
            state.candidates[route.target] = None
    if number in state.recovering:
        state.candidates[number] = None


def after_settling(state: State, frame: Frame) -> None:
    """When the main part is settled what stands under ``finally`` may start, and after that the task that holds the
    frame goes on; one that links a plan before that, since it may have to be undone. The task that stands for ``done``
    is looked at when it alone is open."""
    if frame.open == 1 and frame.last >= 0 and state.tasks[frame.last].status == "pending":
        state.candidates[frame.last] = None
    if not main_part_done(state, frame):
        return
    if frame.finals_open:
        for number in frame.finals:
            if state.tasks[number].status == "pending":
                state.candidates[number] = None
    if frame.owner >= 0 and (not frame.finals_open or frame.linked is not None):
        state.candidates[frame.owner] = None


def tell_recovering(state: State, number: int) -> None:
    """A handler is decided: the task that it handles looks again, and so do those that come after it in line."""
    if state.recovering:
        for route in state.shape.routes_in.get(number, ()):
            if route.source in state.recovering:
                state.candidates[route.source] = None
                offer_routes(state, route.source)


def plan_ended(state: State, number: int) -> None:
    """A task that ends its plan has completed."""
    frame = state.tasks[number].frame
    if frame.ended < 0:
        frame.ended = number
        state.endings += 1
        wake(state, frame)


def plan_goes_on(state: State, number: int) -> None:
    """A task is reset: where it ended its plan, that goes on."""
    frame = state.tasks[number].frame
    if frame.ended == number:
        frame.ended = -1
        state.endings -= 1


def forget(state: State, number: int, inside: bool = True) -> None:
    """A task is reset or undone: what it said, and what was said ``inside`` it, does not count any more."""
    if state.evidence is None:
        return
    state.evidence.pop(number, None)
    if inside and number in state.containers:
        for other in [other for other in state.evidence if number in owners(state, other)]:
            del state.evidence[other]
