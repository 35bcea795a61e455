"""The promises that the record of one run can show, and what must be the same however a run came to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planrunner.app.proof.lives import RUN_ID, Acted, Broken, Lived
from planrunner.engine.replay import replay
from planrunner.machine.checkpoints import UNTOUCHED
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointTaken,
    DoubtSettled,
    Entry,
    FrameOpened,
    RunEnded,
    TaskSettled,
    TasksReset,
)
from planrunner.machine.evolve import CUT_OFF, evolve, fold
from planrunner.machine.names import owners
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED
from planrunner.machine.stops import cut
from planrunner.plan.model import Plan

Json = Any


def check(plan: Plan, lived: Lived) -> None:
    """Raises Broken for the first promise that the run breaks."""
    state, entries = lived.state, lived.entries
    if final_states(fold(plan, RUN_ID, entries)) != final_states(state):
        raise Broken("P14: the state is not the fold of the journal")
    check_replay(plan, entries)
    check_settled_once(entries)
    check_slots(state, entries)
    check_items(state, entries)
    check_checkpoints(state, entries)
    check_starts(plan, entries)
    check_unsafe(entries, lived.acted)
    if state.ended_at is None:
        return
    if decide(state, entries[-1].at).commands:
        raise Broken("P1: something is decided after the end")
    if not isinstance(entries[-1].event, RunEnded):
        raise Broken("P1: the end is not the last entry")
    for task, task_state in zip(state.specs, state.tasks):
        if task_state.status not in SETTLED and not _abandoned_round(state, task_state):
            raise Broken(f"P1: the run ended while `{task.id}` is {task_state.status}")


def check_replay(plan: Plan, entries: Sequence[Entry]) -> None:
    """The record decides the same again. The settled end of an attempt in doubt, outputs included, comes
    from the simulation and not from an event of the run, so such records are left out."""
    if any(isinstance(entry.event, TaskSettled) and entry.event.reason == "ask" for entry in entries):
        return
    difference = replay(plan, RUN_ID, entries).difference
    if difference is not None:
        raise Broken(f"P14: the run does not replay: entry {difference.seq}, {difference.message}")


def _abandoned_round(state: State, task_state: TaskState) -> bool:
    """A task inside a container that was reset or stopped no longer counts."""
    frame = task_state.frame
    while frame.owner >= 0:
        owner = state.tasks[frame.owner]
        if owner.inner is not frame:
            return True
        frame = owner.frame
    return False


def check_settled_once(entries: Sequence[Entry]) -> None:
    """Every task is settled once between two beginnings, every attempt ends once, and nothing settled starts."""
    settled: set[str] = set()
    ended: set[tuple[str, int]] = set()
    for entry in entries:
        event = entry.event
        if isinstance(event, TasksReset):
            settled.difference_update(event.tasks)
            around = {task for task in settled if any(name.startswith(_insides(task)) for name in event.tasks)}
            settled -= around  # the container of a task that is reset continues its attempt
            ended = {each for each in ended if each[0] not in around}
        elif isinstance(event, TaskSettled) and event.status in SETTLED:
            if event.task in settled and event.status != "rolled_back":
                raise Broken(f"P1: `{event.task}` was settled twice (entry {entry.seq})")
            settled.add(event.task)
        elif isinstance(event, AttemptEnded) and event.outcome.failure not in CUT_OFF:
            if (event.task, event.attempt) in ended:
                raise Broken(f"P1: attempt {event.attempt} of `{event.task}` ended twice (entry {entry.seq})")
            ended.add((event.task, event.attempt))
        elif isinstance(event, AttemptStarted) and event.task in settled:
            raise Broken(f"P1: `{event.task}` started after it was settled (entry {entry.seq})")


def check_starts(plan: Plan, entries: Sequence[Entry]) -> None:
    """No task begins on a level that fails but handlers, what stands under ``finally`` and what a person asked for."""
    state = State(plan, RUN_ID)
    for entry in entries:
        event = entry.event
        if isinstance(event, AttemptStarted) and not event.reissue:
            number = state.index[event.task]
            if event.attempt == state.tasks[number].past + 1 and cut(state, number) is not None:
                raise Broken(f"`{event.task}` began though its level had failed (entry {entry.seq})")
        evolve(state, event, entry.at)


def check_checkpoints(state: State, entries: Sequence[Entry]) -> None:
    """No task that keeps files completes, and no round after one that does begins, before they are kept."""
    kept: set[tuple[str, int]] = set()
    for entry in entries:
        event = entry.event
        if isinstance(event, CheckpointTaken):
            kept.add((event.task, event.round))
        elif isinstance(event, TasksReset):
            kept = {moment for moment in kept if not moment[0].startswith(event.tasks)}
        elif isinstance(event, TaskSettled) and event.status == "completed" and event.reason not in UNTOUCHED:
            if state.specs[state.index[event.task]].checkpoint is not None and (event.task, 0) not in kept:
                raise Broken(f"D2: `{event.task}` completed before its files were kept (entry {entry.seq})")
        elif isinstance(event, FrameOpened) and event.kind == "round" and event.number > 1:
            loop, before = state.specs[state.index[event.task]].loop, event.number - 1
            due = loop is not None and loop.checkpoint and before % loop.checkpoint == 0
            if due and (event.task, before) not in kept:
                raise Broken(f"D2: round {event.number} of `{event.task}` began too early (entry {entry.seq})")


def _insides(task: str) -> tuple[str, ...]:
    return tuple(f"{task}{mark}" for mark in "/[#@")


def check_slots(state: State, entries: Sequence[Entry]) -> None:
    """Never more tasks at once than the plan and the limits of labels allow; containers and instant ones take none."""
    taking = {
        task.id: task.labels
        for number, task in enumerate(state.specs)
        if number not in state.containers and not state.trait(task).instant
    }
    for seq, at_work in _at_work(entries):
        running = at_work & taking.keys()
        if len(running) > state.max_parallel:
            raise Broken(f"{len(running)} tasks run at entry {seq}, {state.max_parallel} may")
        for label, limit in state.limits.items():
            taken = sum(label in taking[task] for task in running)
            if taken > limit:
                raise Broken(f"{taken} tasks with label `{label}` run at entry {seq}, {limit} may")


def check_items(state: State, entries: Sequence[Entry]) -> None:
    """Never more items of a fan-out have something at work than it lets go on at once."""
    most = {
        number: task.fanout.max_parallel
        for number, task in enumerate(state.specs)
        if task.fanout is not None and task.fanout.max_parallel
    }
    for seq, at_work in _at_work(entries) if most else ():
        items = {item for task in at_work & state.index.keys() for item in _items_around(state, state.index[task])}
        for owner, number in Counter(state.tasks[item].frame.owner for item in items).items():
            if owner in most and number > most[owner]:
                raise Broken(f"{number} items of {state.specs[owner].id} go on at entry {seq}, {most[owner]} may")


def _at_work(entries: Sequence[Entry]) -> Iterator[tuple[int, set[str]]]:
    """The tasks that are at work after each start of an attempt, with the number of its entry."""
    running: set[str] = set()
    for entry in entries:
        event = entry.event
        if isinstance(event, AttemptStarted):
            running.add(event.task)
            yield entry.seq, running
        elif isinstance(event, (AttemptEnded, DoubtSettled, TaskSettled, FrameOpened)):
            running.discard(event.task)
        elif isinstance(event, TasksReset):  # what a task held that is reset is over
            over = tuple(mark for task in event.tasks for mark in _insides(task))
            running = {task for task in running if not task.startswith(over)}


def _items_around(state: State, number: int) -> list[int]:
    """The items that hold a task, or that it is."""
    return [each for each in (*owners(state, number), number) if state.tasks[each].frame.kind == "items"]


def check_unsafe(entries: Sequence[Entry], acted: Sequence[Acted]) -> None:
    """No attempt of an unsafe task acts twice on planrunner's own account."""
    unsafe = {
        entry.event.task
        for entry in entries
        if isinstance(entry.event, AttemptStarted) and entry.event.effect == "unsafe"
    }
    seen: dict[tuple[str, int], int] = {}
    for one in acted:
        key = (one.task, one.attempt)
        if key in seen and one.task in unsafe:
            raise Broken(
                f"P3: attempt {one.attempt} of the unsafe task `{one.task}` acted in life {seen[key]} and in {one.life}"
            )
        seen[key] = one.life


def final_states(state: State) -> Mapping[str, Json]:
    """Each task with everything about it that must be the same however the run came to its end."""
    return {
        task.id: (
            task_state.status,
            task_state.dependency_outcome,
            task_state.attempts,
            task_state.recovered_by,
            task_state.outputs,
        )
        for task, task_state in zip(state.specs, state.tasks)
    }


def differences(calm: State, other: State) -> list[str]:
    """What a crash has changed about the end of a run; empty where nothing has.

    In a plan that stops at the first failure, which tasks had begun by then is a matter of timing: tasks that one of
    the two runs cancelled, and what follows them, are not compared. Nor is a run in which a doubt was settled by the
    task's own rule as a failure: there the plan itself says that a crash makes a difference. It says so too where a
    time limit expired that keeps counting while the run is paused: a timebox, or the timeout of a container.
    """
    result: list[str] = []
    if any(task.failure == "doubt" for task in other.tasks) or _out_of_time(other) - _out_of_time(calm):
        return result
    if calm.status != other.status or calm.reason != other.reason:
        result.append(f"the run is {_ending(other)} instead of {_ending(calm)}")
    before, after = final_states(calm), final_states(other)
    untold = _untold(calm) | _untold(other)
    result += [
        f"`{task}` is {_words(after.get(task))} instead of {_words(before.get(task))}"
        for task in before.keys() | after.keys()
        if before.get(task) != after.get(task) and not _is_inside(task, untold)
    ]
    if calm.outputs != other.outputs and not untold:
        result.append(f"the outputs are {other.outputs} instead of {calm.outputs}")
    return sorted(result)


def _out_of_time(state: State) -> set[str]:
    """Tasks that ended since a time was over that a crash does not stop."""
    return {
        task.id
        for number, (task, found) in enumerate(zip(state.specs, state.tasks))
        if found.failure == "timeout" and (task.timebox is not None or number in state.containers)
    }


def _is_inside(task: str, names: set[str]) -> bool:
    """Whether a task is one of these, or stands inside one."""
    return task in names or any(task.startswith(_insides(name)) for name in names)


def _ending(state: State) -> str:
    return f"{state.status} ({state.reason})" if state.reason else state.status


def _words(found: Json) -> str:
    if found is None:
        return "missing"
    status, _, attempts, _, outputs = found
    return f"{status} after {attempts} attempts with {outputs}"


def _untold(state: State) -> set[str]:
    """Tasks whose end hangs on how far the run was when something failed."""
    numbers = {number for number, task_state in enumerate(state.tasks) if task_state.status == "cancelled"}
    if not numbers:
        return set()
    numbers |= {number for number, task_state in enumerate(state.tasks) if _beside_failure(state, task_state)}
    todo = list(numbers)
    while todo:
        for other in state.shape.following(todo.pop()):
            if other not in numbers:
                numbers.add(other)
                todo.append(other)
    return {state.specs[number].id for number in numbers}


def _beside_failure(state: State, task_state: TaskState) -> bool:
    """An owner of a level on which something was cancelled."""
    inner = task_state.inner
    if inner is None:
        return False
    return any(state.tasks[at].status == "cancelled" for at in range(inner.first, inner.first + inner.size))
