"""Containers: how frames of loops, fan-outs and subplans open, go round and close."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from planrunner.machine.budgets import next_round, too_deep, went_round
from planrunner.machine.clocks import limit_time
from planrunner.machine.commands import Close, Command, Open, Record
from planrunner.machine.events import (
    FrameClosing,
    FrameOpened,
    TaskSettled,
)
from planrunner.machine.graph import Frame
from planrunner.machine.reuse import taken_along
from planrunner.machine.rollback import begin_undoing, came_to, is_linked_due
from planrunner.machine.scope import FrameScope
from planrunner.machine.state import State, member
from planrunner.machine.statuses import after_settling, wake, wake_waiting
from planrunner.machine.stops import deadline_text, ended_by, frame_failure, main_part_done
from planrunner.machine.verdicts import lacks_value
from planrunner.plan.agents import CHECK
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.expressions.values import EvaluationError
from planrunner.plan.model import Fanout, Join, Loop, Plan, Task
from planrunner.plan.tasks import agent_text, tools_of, until_of

Json = Any


def frame_opened(state: State, event: FrameOpened, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    body, named = _body(state, number, event)
    frame = Frame(event.kind, number, len(state.specs), len(body))
    task = state.specs[number]
    frame.linked = task.sub
    frame.on_failure = task_state.frame.on_failure if task.sub is None else task.sub.on_failure
    frame.values = event.values
    frame.round = event.number
    if task.fanout is not None:
        frame.tolerate = tolerated(task.fanout, len(body))
        if task.fanout.max_parallel and task.fanout.max_parallel < len(body):
            frame.limit = frame.first + task.fanout.max_parallel
    if task.sub is not None or task_state.frame.owner >= 0:
        named = _limited(state, number, task.sub, named)
    state.add(frame, body, named)
    state.index.update({task.id: frame.first + at for at, task in enumerate(named)})
    if event.number > 1 and task.loop is not None and task.loop.breaker and task_state.inner is not None:
        follow(state, task_state.inner, frame, bool(task.loop.carry))
    frame.earlier = task_state.inner if event.number > 1 else None
    if task_state.kept is not None:
        taken_along(state, number, frame, event.attempt)
    task_state.inner = frame
    if event.kind == "round" and state.ledger is not None:
        went_round(state, number)
    if event.number <= 1:
        limit_time(state, number, at)
    state.candidates.pop(number, None)
    for inner in range(frame.first, frame.limit or frame.first + frame.size):
        ready = state.tasks[inner].missing == 0 or inner in state.shape.uncounted
        if ready and not state.specs[inner].finally_:
            state.candidates[inner] = None
    if event.kind == "items":
        wake_waiting(state, number)  # of those that need more items than there are
    after_settling(state, frame)


def _body(state: State, number: int, event: FrameOpened) -> tuple[list[Task], list[Task]]:
    """The tasks of the frame as they are written, and under the names they have in the run."""
    task = state.specs[number]
    prefix = event.task if event.attempt == 1 else f"{event.task}@{event.attempt}"
    if event.kind == "items":
        item = state.containers[number]
        assert item is not None, "a fan-out has the task it multiplies"
        family = event.task.endswith("*")
        stem = event.task[:-1] if family else prefix
        last = "" if event.attempt == 1 else f"@{event.attempt}"
        names = [f"{stem}{at + 1}{last}" if family else f"{stem}[{at}]" for at in range(len(event.values))]
        items = [member(task, item, value)._replace(id=name) for name, value in zip(names, event.values, strict=True)]
        items = _in_turn(state, items) if tools_of(task) else items
        return items, items
    if event.kind == "round":
        assert task.loop is not None
        body, prefix = list(task.loop.tasks), f"{prefix}#{event.number}"
    else:
        body = list(task.subplan if task.sub is None else task.sub.tasks)
    return body, [inner._replace(id=f"{prefix}/{inner.id}") for inner in body]


def _in_turn(state: State, calls: list[Task]) -> list[Task]:
    """Calls that a model asks for at once: those that only look run side by side, any other waits for all before it,
    and all after it wait for that one."""
    done: list[Task] = []
    first = 0  # of those since the last one that acts, which is the one before
    for at, call in enumerate(calls):
        looks = call.uses and state.trait(call).effect in ("pure", "read")
        before = calls[max(first - 1, 0) : first] if looks else calls[max(first - 1, 0) : at]
        done.append(call._replace(needs=tuple(each.id for each in before), join=Join("all_done")))
        first = first if looks else at + 1
    return done


def _limited(state: State, number: int, sub: Plan | None, named: list[Task]) -> list[Task]:
    """The tasks with the limits of the linked plans around them: such a limit counts as one of a label that only they
    have, the path of the task that links the plan and, for a label of that plan, its name."""
    marks = {label for label in state.specs[number].labels if label.endswith("/")}
    limits: dict[str, list[str]] = {}
    around = list(_linked_around(state, number, sub))
    for path, plan in around:
        if plan.max_parallel != Plan("").max_parallel:
            marks.add(f"{path}/")
            state.limits[f"{path}/"] = plan.max_parallel
        for label, limit in plan.limits:
            limits.setdefault(label, []).append(f"{path}/{label}")
            state.limits[f"{path}/{label}"] = limit
    if not (marks or limits):
        return named
    return [
        task._replace(
            labels=(*task.labels, *sorted(marks), *chain.from_iterable(limits.get(each, ()) for each in task.labels))
        )
        for task in named
    ]


def _linked_around(state: State, number: int, sub: Plan | None) -> Iterator[tuple[str, Plan]]:
    """The linked plans around what a task holds, the nearest first, each with the path of the task that links it."""
    while True:
        if sub is not None:
            yield state.specs[number].id, sub
        if number < 0:
            return
        frame = state.tasks[number].frame
        sub, number = frame.linked, frame.owner


def tolerated(fanout: Fanout, size: int) -> int:
    """How many items may fail."""
    allowed = fanout.tolerate
    if isinstance(allowed, str):
        return int(size * float(allowed.strip().rstrip("%")) / 100.0)
    return int(allowed or 0)


def frame_closing(state: State, event: FrameClosing, at: float) -> None:
    number = state.index[event.task]
    frame = state.tasks[number].inner
    assert frame is not None
    frame.closing, frame.why = event.reason, event.comment
    state.wheel.drop(number)
    state.meters.pop(number, None)
    state.closing += 1
    state.candidates.pop(number, None)
    wake(state, frame)
    for inner in range(frame.first, len(state.specs)):
        if state.tasks[inner].status in ("running", "in_doubt"):
            state.candidates[inner] = None


def begin(state: State, number: int) -> Command:
    """A task that holds others begins, unless it stands too deep in others already."""
    if why := too_deep(state, number):
        return Record(TaskSettled(state.specs[number].id, "failed", "budget", why, "budget"))
    if state.ledger is not None and state.specs[number].loop is not None and (command := next_round(state, number)):
        if isinstance(command, Close):  # an attempt that has not begun cannot end
            return Record(TaskSettled(state.specs[number].id, "failed", "budget", command.message, "budget"))
        return command
    return Open(number, state.tasks[number].attempts + 1)


def step(state: State, number: int, now: float) -> Command | None:
    """What follows for a running task that holds others; None while its frame is under way."""
    task_state = state.tasks[number]
    frame = task_state.inner
    assert frame is not None
    if frame.linked is not None and undone_first(state, frame):
        return begin_undoing(state, number, *frame_failure(state, frame))
    if not main_part_done(state, frame) or frame.finals_open:
        due = state.wheel.due(number)
        if due is not None and due <= now and not frame.closing:
            why = _time_text(state, number, now)
            return Record(FrameClosing(state.specs[number].id, "timeout", why))
        return None
    failure, message = frame_failure(state, frame)
    if frame.undoing is not None:
        failure, message = came_to(state, frame.undoing)
    loop = state.specs[number].loop
    if frame.kind == "round" and loop is not None and not frame.closing:
        return _after_round(state, number, loop, failure, message)
    return Close(number, failure, message)


def _time_text(state: State, number: int, now: float) -> str:
    """Which of its limits a task that holds others has reached, in words."""
    task, meter = state.specs[number], state.meters.get(number)
    if meter is None or meter.since is None or now - meter.since < meter.left:
        return deadline_text(task.sub) if task.sub is not None else "its time is over"
    limits = [(task.budgets.time, "time budget"), (None if task.fanout is not None else task.timeout, "timeout")]
    if task.sub is not None:
        limits.append((task.sub.budgets.time, "time budget"))
    limit, name = min((limit, name) for limit, name in limits if limit is not None)
    return f"ran longer than its {name} of {format_duration(limit)}"


def undone_first(state: State, frame: Frame) -> bool:
    """Whether a linked plan is undone before whatever else follows in it."""
    if frame.linked is None or frame.linked.on_failure != "rollback" or not main_part_done(state, frame):
        return False
    if frame.undoing is not None:
        return frame.undoing.active
    return is_linked_due(state, frame, frame_failure(state, frame)[0])


def _after_round(state: State, number: int, loop: Loop, failure: str, message: str) -> Command:
    """The next round, or the end: reached, failed, or as many rounds as there may be.

    A failure that ``until`` asks about is the loop's to deal with: the round has not got there yet. Any other ends it,
    and so does a value that is missing, which the next round would miss as well.
    """
    task_state = state.tasks[number]
    frame = task_state.inner
    assert frame is not None
    if state.endings and (why := ended_by(state, number)):
        return Close(number, "cancelled", why)
    no_value = any(lacks_value(state, each) for each in frame.failures)
    if failure and (failure == "cancelled" or not _asked_about(state, frame, loop) or no_value):
        return Close(number, failure, f"round {frame.round}: {message}")
    if loop.until is not None:
        try:
            if truth(loop.until.tree, FrameScope(state, frame)):
                return Close(number)
        except EvaluationError as error:
            goal = until_of(state.specs[number])
            return Close(number, "logic", f"`{goal}` has no value after round {frame.round}: {error}")
    if loop.breaker and failure and alike(state, frame) >= loop.breaker:
        return Close(number, "breaker", f"the last {loop.breaker} rounds failed alike: {message}")
    if frame.round < loop.max and not are_tries_spent(state, frame):
        if state.ledger is not None and (command := next_round(state, number)):
            return command
        return Open(number, task_state.attempts, frame.round + 1)
    if loop.until is None:
        return Close(number)
    failure = "exhausted" if loop.at_bound == "fail" else ""
    return Close(number, failure, _unreached(state, state.specs[number], frame))


def tries(state: State, frame: Frame) -> int:
    """How many answers an agent has given in the rounds up to this one."""
    answered = state.tasks[frame.index["model"]].outputs.get("done")
    return int(frame.values.get("tries", 0)) + bool(answered)


def are_tries_spent(state: State, frame: Frame) -> bool:
    """Whether an agent has answered as often as it may, in a round that did not end its work."""
    agent = state.specs[frame.owner].agent
    return agent is not None and 0 < agent.tries <= tries(state, frame)


def _unreached(state: State, task: Task, frame: Frame) -> str:
    goal = until_of(task)
    if task.agent is not None and are_tries_spent(state, frame):
        why = _last_check(state, frame) if task.agent.until is None else f": `{goal}` is still false"
        which = "its 1 try is" if task.agent.tries == 1 else f"its {task.agent.tries} tries are"
        return f"{agent_text(task.agent, task.id)} has not given what was asked for, and {which} used up{why}"
    if task.agent is not None and task.agent.until is None:
        why = _last_check(state, frame)
        return f"{agent_text(task.agent, task.id)} has not given {goal} after {frame.round} rounds{why}"
    return f"`{goal}` is still false after {frame.round} rounds"


_QUOTED = 2_000
"""Characters at the end of what a check printed that a message quotes."""


def _last_check(state: State, frame: Frame) -> str:
    """What the check of an agent's work said last, as the end of a sentence; empty without one."""
    at = frame.index.get(CHECK)
    outcome = state.tasks[at].outcome if at is not None else None
    if outcome is None or not outcome.failure:
        return ""
    printed = "\n".join(filter(None, (outcome.stdout.strip(), outcome.stderr.strip())))
    return ": " + "\n".join(filter(None, (outcome.message, printed[-_QUOTED:])))


def _asked_about(state: State, frame: Frame, loop: Loop) -> bool:
    if loop.until is None or state.specs[frame.owner].agent is not None:
        return False
    asked = {path[1] for path in loop.until.paths if path[0] == "tasks" and len(path) > 1}
    return all(number in {frame.index.get(name) for name in asked} for number in frame.failures)


# Rounds that change nothing


def signature(state: State, frame: Frame) -> tuple[tuple[str, str, str], ...]:
    """How a round failed: what failed, in which class and why; empty for one that went well."""
    names = {number: name for name, number in frame.index.items()}
    return tuple((names[at], state.tasks[at].failure, state.tasks[at].detail) for at in frame.failures)


def follow(state: State, before: Frame, frame: Frame, carries: bool) -> None:
    """Tell a new round how many before it, in a row, changed nothing that is carried, and how many failed alike."""
    frame.sign = signature(state, before)
    frame.alike = alike(state, before)
    frame.same = before.same + 1 if carries and frame.values == before.values else 0


def alike(state: State, frame: Frame) -> int:
    """Rounds in a row that failed alike, this one included."""
    sign = signature(state, frame)
    if not sign:
        return 0
    return frame.alike + 1 if sign == frame.sign else 1
