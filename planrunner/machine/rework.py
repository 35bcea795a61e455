"""Tasks that are reset: sent back by a gate or an edge, tried again or run again by a person.

Everything after the task is reset with it. Attempts go on counting, so that no key is ever used twice; those before the
reset do not count for retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from planrunner.machine import approvals, reuse
from planrunner.machine.answers import comment
from planrunner.machine.budgets import given_up
from planrunner.machine.clocks import drop_alarms, limit_time
from planrunner.machine.commands import (
    Command,
    Record,
    settle,
)
from planrunner.machine.compensation import keep_outputs
from planrunner.machine.events import ResetPlanned, RunReopened, TaskSettled, TasksReset
from planrunner.machine.graph import Frame
from planrunner.machine.joins import edge_fired, is_decidable
from planrunner.machine.names import owners
from planrunner.machine.reuse import may_keep
from planrunner.machine.state import State
from planrunner.machine.statuses import (
    SETTLED,
    check_run,
    forget,
    free_slot,
    move,
    plan_goes_on,
)
from planrunner.machine.stops import undisturbed
from planrunner.plan.tasks import comes_last
from planrunner.records import astuple


def downstream(state: State, number: int) -> list[int]:
    """A task and everything after it on its level, in the order of the plan."""
    reached = {number}
    todo = [number]
    while todo:
        for other in state.shape.following(todo.pop()):
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return sorted(reached)


def send_back(state: State, cause: int, target: int, comment: str = "", by: str = "") -> ResetPlanned:
    """The event that resets ``target`` and everything after it, ``cause`` included."""
    numbers = sorted({*downstream(state, target), cause})
    names = tuple(state.specs[number].id for number in numbers)
    return ResetPlanned(names, "rework", by, state.specs[cause].id, comment)


def by_edge(state: State, number: int, why: str, failure: str, status: str = "failed", by: str = "") -> Record | None:
    """Where a rework edge of a task that is about to settle as ``status`` with that class of failure leads, while it
    has rounds left; ``why`` it failed, or the condition of the edge, is what the tasks that are reset are told, and
    ``by`` whom. None where the condition of one of its edges has no value, which fails the task."""
    if not is_decidable(state, number, status, failure):
        return None
    for route in state.shape.reworks.get(number, ()):
        if state.sent_back.get(number, 0) < route.edge.max and edge_fired(state, route, status, failure):
            condition = route.edge.condition
            otherwise = "none of its other edges fires" if route.edge.otherwise else ""
            said = why or (f"`{condition.text}` is true" if condition is not None else otherwise)
            return Record(send_back(state, number, route.target, said, by))
    return None


def redirected(state: State, command: Command, now: float) -> Command:
    """What sends the run back in place of the end of a task that went well and whose edges lead back. What is stopped
    from outside completes, and so does what was done already."""
    event = command.event if isinstance(command, Record) else None
    if not isinstance(event, TaskSettled) or event.status != "completed" or event.reason in ("fresh", "reused"):
        return command
    number = state.index[event.task]
    if number not in state.shape.reworks or not undisturbed(state, number):
        return command
    gate = state.tasks[number].gate
    if gate is None or state.specs[number].gate is None:
        return by_edge(state, number, "", "", "completed") or command
    said = comment(gate, state.tasks[number].outputs)
    return by_edge(state, number, said, "", "completed", ", ".join(gate.by)) or command


def due(state: State) -> list[Record]:
    """Planned resets whose tasks have ended."""
    return [Record(TasksReset(*astuple(planned))) for planned in state.resets if _at_rest(state, planned.tasks)]


def _at_rest(state: State, names: Iterable[str]) -> bool:
    for name in names:
        task_state = state.tasks[state.index[name]]
        if task_state.status in ("running", "in_doubt") and (
            task_state.outcome is None or task_state.outcome.failure == "unstarted"
        ):
            return False
    return True


def reset_planned(state: State, event: ResetPlanned, at: float) -> None:
    state.resets.append(event)
    for name in event.tasks:
        number = state.index[name]
        state.held[number] = None
        task_state = state.tasks[number]
        if task_state.status == "queued":
            _leave_queue(state, number)
            move(state, number, task_state, "pending")
        state.candidates.pop(number, None)


def _leave_queue(state: State, number: int) -> None:
    task = state.specs[number]
    state.queue.remove(state.limited_labels(task), task.priority, number)


def _goes_on_around(state: State, number: int, at: float, whole: bool) -> list[int]:
    """Reopen what holds a task that is reset, as ``_reopen_around``; what was undone there is undone again if it fails
    again."""
    if state.tasks[number].frame.owner < 0:
        return []
    beside = _reopen_around(state, number, at, whole)
    around = number
    while around >= 0:
        state.tasks[around].frame.undoing = None
        around = state.tasks[around].frame.owner
    return beside


def tasks_reset(state: State, event: TasksReset, at: float) -> None:
    state.resets = [planned for planned in state.resets if planned.tasks != event.tasks]
    numbers = [state.index[name] for name in event.tasks]
    cause = state.index.get(event.cause, -1)
    if cause >= 0:
        state.sent_back[cause] = state.sent_back.get(cause, 0) + 1
    said = {"comment": event.comment, "by": event.by, "from": event.cause, "round": state.sent_back.get(cause, 0)}
    numbers = _outermost(state, numbers)
    by_plan = event.reason == "rework"
    stays = event.named  # tasks asked for by name begin although their level fails
    beside = [
        number for number in numbers if state.tasks[number].status == "completed" or state.specs[number].id in stays
    ]
    for number in numbers:
        beside += _goes_on_around(state, number, at, by_plan)
    unless_same = frozenset(event.unless_same)
    for number in numbers:
        task_state = state.tasks[number]
        kept = None
        if state.specs[number].id in unless_same:
            since = at if event.reason == "revised" and not event.by_call else None
            kept = reuse.of(state, number, event.by_call, since)
        elif event.reason not in ("revised", FORKED):
            task_state.rework = said
        gate = task_state.gate
        if gate is not None and gate.decision == "approved" and not approvals.stands(state, number, gate):
            state.again[approvals.unvisited(state.specs[number].id)] = approvals.reason((), gate.by)
        if event.reason in (FORKED, "revised"):
            _stop_inside(state, number, at, event.reason, True)
        _reset_task(state, number, event.reason == "revised")
        if kept is not None:
            state.use("reuse")
        task_state.kept = kept
        if event.reason == "revised":
            task_state.revised = state.revision
        task_state.insisted, task_state.overlooks = False, frozenset()
    for name, names in event.changed.items():
        state.again[name] = names
    _by_turns(state, numbers, beside, at)
    for number in numbers:
        count_needs(state, number)
        state.candidates[number] = None
    _count_again(state, numbers)
    if not by_plan:
        for number in beside:
            task_state = state.tasks[number]
            stand = [*task_state.frame.failures, *([task_state.frame.ended] if task_state.frame.ended >= 0 else [])]
            task_state.overlooks = frozenset((state.specs[each].id, state.tasks[each].visit) for each in stand)
    if event.services_first:
        services_reset(state, numbers)


def _count_again(state: State, numbers: list[int]) -> None:
    """What needs a task that is reset alone, as a service is, has that need to wait for again."""
    for other in {other for number in numbers for other in state.shape.dependents[number]}.difference(numbers):
        if state.tasks[other].status in ("pending", "queued"):
            count_needs(state, other)


def _stop_inside(state: State, number: int, at: float, reason: str, slots: bool) -> None:
    """Nothing that an open container holds goes on: the container opens again."""
    inner = state.tasks[number].inner
    for each in range(inner.first, inner.first + inner.size) if inner is not None else ():
        if state.tasks[each].status not in SETTLED:
            stop(state, each, at, reason, slots)


def stop(state: State, number: int, at: float, reason: str = "revised", slots: bool = False) -> None:
    """A task is over, with everything open inside it: it is gone, or opens again, since the plan was revised or the
    run forked (``reason``). ``slots`` frees its slot; a revision counts them all again."""
    task_state = state.tasks[number]
    _stop_inside(state, number, at, reason, slots)
    if state.ledger is not None:
        given_up(state, number)
    drop_alarms(state, number)
    state.wheel.drop(number)
    if slots:
        free_slot(state, number)
    state.running.pop(number, None)
    state.meters.pop(number, None)
    state.recovering.pop(number, None)
    state.asked.discard(number)
    state.turns.pop(number, None)
    if task_state.status in SETTLED:
        return
    if task_state.status == "queued":
        _leave_queue(state, number)
    move(state, number, task_state, "cancelled")
    task_state.dependency_outcome, task_state.reason = "cancelled", reason
    task_state.detail = "the run was forked meanwhile" if reason == FORKED else "the plan was revised meanwhile"
    task_state.ended = at
    state.candidates.pop(number, None)


FORKED = "forked"
"""The reason of the reset that follows a fork."""


def _outermost(state: State, numbers: list[int]) -> list[int]:
    """Those that no other one of them holds. What a task that is reset held is gone with it; its frame remembers
    what of that keeps nothing."""
    if not state.containers:
        return numbers
    left = []
    wanted = set(numbers)
    for number in numbers:
        owner = state.tasks[number].frame.owner
        while owner >= 0 and owner not in wanted:
            owner = state.tasks[owner].frame.owner
        if owner < 0:
            left.append(number)
        else:
            state.tasks[number].frame.renewed.add(number)
    return left


def _by_turns(state: State, reset: list[int], reopened: list[int], at: float) -> None:
    """Of the items that are open again or reset no more are under way than their fan-out lets go on at once: the rest
    wait in their order, those that are open before those that are to begin."""
    again = set(reopened)
    frames = [state.tasks[number].frame for number in (*reset, *reopened)]
    for frame in {id(frame): frame for frame in frames if frame.kind == "items"}.values():
        fanout = state.specs[frame.owner].fanout
        if fanout is None or not fanout.max_parallel or fanout.max_parallel >= frame.size:
            continue
        items = range(frame.first, frame.first + frame.size)
        under_way = [number for number in items if _is_under_way(state, number)]
        waiting = [number for number in under_way if number in again or number in state.turns]
        free = max(fanout.max_parallel - len(under_way) + len(waiting), 0)
        for number in waiting[:free]:
            if number in state.turns:
                _take_turn(state, number, at)
        for number in waiting[free:]:
            _wait_for_turn(state, number)
        pending = [number for number in items if state.tasks[number].status == "pending"][max(free - len(waiting), 0) :]
        frame.limit = pending[0] if pending else frame.first + frame.size


def item_settled(state: State, event: TaskSettled, at: float) -> None:
    """The next one of the items that wait for their turn goes on."""
    number = state.index[event.task]
    if event.status not in SETTLED:
        return
    if number in state.turns:
        del state.turns[number]  # it never had its turn
        return
    frame = state.tasks[number].frame
    turn = min((each for each in state.turns if state.tasks[each].frame is frame), default=-1)
    if turn >= 0:
        _take_turn(state, turn, at)


def _wait_for_turn(state: State, number: int) -> None:
    for each in _holders(state, number):
        state.meters.pop(each, None)
        state.wheel.drop(each)
    state.use("turns")
    state.turns[number] = None


def _take_turn(state: State, number: int, at: float) -> None:
    del state.turns[number]
    for each in _holders(state, number):
        limit_time(state, each, at)
        inner = state.tasks[each].inner
        for other in range(inner.first, inner.first + inner.size) if inner is not None else ():
            if state.tasks[other].status not in SETTLED:
                state.candidates[other] = None


def _holders(state: State, number: int) -> Iterator[int]:
    """A task that is under way, and those inside it, which hold others; none that wait for their turn."""
    inner = state.tasks[number].inner
    if inner is not None and number not in state.turns and _is_under_way(state, number):
        yield number
        for each in range(inner.first, inner.first + inner.size):
            yield from _holders(state, each)


def _is_under_way(state: State, number: int) -> bool:
    status = state.tasks[number].status
    return status != "pending" and status not in SETTLED


def _reopen_around(state: State, number: int, at: float, insisted: bool) -> list[int]:
    """The tasks around one that is reset are running again; their numbers."""
    reopened: list[int] = []
    owner = state.tasks[number].frame.owner
    while owner >= 0 and state.tasks[owner].status in SETTLED:
        task_state = state.tasks[owner]
        inner = task_state.inner
        assert inner is not None
        _reopen_level(state, owner)
        move(state, owner, task_state, "running")
        forget(state, owner, inside=False)
        task_state.dependency_outcome = ""
        task_state.reason = task_state.detail = task_state.failure = task_state.recovered_by = ""
        task_state.idle += at - task_state.ended if task_state.ended is not None else 0.0
        task_state.outcome = task_state.ended = None
        task_state.judged, task_state.insisted = False, insisted
        reopened.append(owner)
        if inner.closing:
            inner.closing = ""
            state.closing -= 1
        limit_time(state, owner, at)
        owner = task_state.frame.owner
    return reopened


def _reopen_level(state: State, number: int) -> None:
    """Its level counts a settled task as open again."""
    task_state = state.tasks[number]
    frame = task_state.frame
    if task_state.status in SETTLED:
        if state.specs[number].finally_:
            frame.finals_open += 1
        else:
            frame.open += 1
    if number in frame.failures:
        before = frame.failing
        frame.failures.remove(number)
        if before and not frame.failing:
            state.failing -= 1
    state.recovering.pop(number, None)


def _reset_task(state: State, number: int, revised: bool) -> None:
    """With ``revised`` it has another definition, so attempts that wait for a retry belong to a visit that is over."""
    task_state = state.tasks[number]
    state.held.pop(number, None)
    state.turns.pop(number, None)
    forget(state, number)
    if state.endings:
        plan_goes_on(state, number)
    _reopen_level(state, number)
    if state.ledger is not None:
        given_up(state, number)
    drop_alarms(state, number)
    state.wheel.drop(number)
    state.meters.pop(number, None)
    free_slot(state, number)
    if task_state.status == "queued":
        _leave_queue(state, number)
    if task_state.status != "pending" or (revised and task_state.attempts > task_state.past):
        if task_state.status != "pending":
            move(state, number, task_state, "pending")
        if state.compensation_log is not None:
            keep_outputs(state, number)
        task_state.visit += 1
    task_state.past = task_state.attempts
    task_state.idle, task_state.tried = 0.0, ()
    task_state.dependency_outcome = ""
    task_state.outcome = task_state.facts = task_state.started = task_state.ended = task_state.inner = (
        task_state.gate
    ) = None
    task_state.cleared = ()
    state.asked.discard(number)
    task_state.outputs = {}
    task_state.recovered_by = task_state.failure = task_state.reason = task_state.detail = ""
    task_state.uncertain, task_state.judged, task_state.reissues = False, True, 0


def count_needs(state: State, number: int) -> None:
    task_state = state.tasks[number]
    task_state.missing, task_state.broken = 0, -1
    for need in state.shape.needs[number]:
        outcome = state.tasks[need].dependency_outcome
        if outcome not in ("completed", "tolerated"):
            selected = state.tasks[need].reason == "not_selected"
            task_state.missing += not selected
            if outcome and not selected and task_state.broken < 0:
                task_state.broken = need


def run_reopened(state: State, event: RunReopened, at: float) -> None:
    check_run(state.status, "paused")
    state.status = "paused"
    state.reason, state.detail = event.reason, ""
    state.ended_at = None
    if event.reason != "rollback":  # a reset takes back what stopped the run
        state.stop_reason = state.stop_by = state.stop_comment = ""
    if state.compensation_log is not None:
        state.compensation_log.main.status = state.compensation_log.main.reason = ""


_GOOD = ("completed", "tolerated", "skipped")


class Unfit(Exception):
    """A task cannot be reset; the message says why."""


class Reset(NamedTuple):
    """Numbers of the tasks that are reset: in any case, and those that are left as they are when the call they would
    make is the one they made. A task of the latter that holds others is opened, and each task inside it is compared; of
    those only what is among the former as well surely runs. ``by_call`` is as in ``TasksReset``; ``named`` are
    those that a person named."""

    again: tuple[int, ...]
    perhaps: tuple[int, ...] = ()
    by_call: bool = False
    named: tuple[int, ...] = ()


def retried(state: State, wanted: Iterable[int]) -> Reset:
    """The tasks among ``wanted`` (none given: all there are) that failed, were cancelled or were undone, inside tasks
    that hold others too, everything that did not come about because of them, and what stands under ``finally`` around
    them. Raises Unfit."""
    chosen = list(wanted) or _not_good(state, state.top.first, state.top.size)
    leaves = sorted({leaf for number in chosen for leaf in _leaves(state, number)})
    if not leaves:
        raise Unfit("no task of the run failed, was cancelled or was undone")
    numbers = {other for leaf in leaves for other in _with_levels_above(state, leaf)}
    for number in leaves:
        if state.tasks[number].status == "completed" and not _is_undone(state, number):
            name = state.specs[number].id
            raise Unfit(f"`{name}` went well; `planrunner rerun {state.run_id} '{name}'` runs it again all the same")
    return _whole(state, numbers, set())._replace(named=tuple(leaves))


def run_again(
    state: State, wanted: Iterable[int], *, all_after: bool = False, by_call: bool = False, only_failed: bool = False
) -> Reset:
    """``wanted`` in any case, and what stands under ``finally`` around anything that is reset. What comes after is
    done again too, but for what may keep its result; with ``all_after`` nothing may, with ``by_call`` everything that
    would be called as before. With ``only_failed`` what went well stays. Raises Unfit."""
    first = set(wanted)
    after = {other for number in first for other in _with_levels_above(state, number)} - first
    if only_failed:
        first = {number for number in first if state.tasks[number].dependency_outcome not in _GOOD}
        after = {number for number in after if state.tasks[number].dependency_outcome not in _GOOD}
    if not first | after:
        raise Unfit("every one of these tasks went well")
    named = tuple(sorted(first))
    if all_after:
        return _approved(state, _whole(state, first | after, set())._replace(named=named))
    perhaps = {each for each in after if (by_call and not state.specs[each].renewed) or may_keep(state, each)}
    return _approved(state, _whole(state, first | (after - perhaps), perhaps)._replace(by_call=by_call, named=named))


def reset_event(state: State, reset: Reset, reason: str, by: str) -> TasksReset:
    """The event that resets them."""
    names = [state.specs[number].id for number in (*reset.again, *reset.perhaps)]
    unless_same = tuple(state.specs[number].id for number in reset.perhaps)
    named = tuple(state.specs[number].id for number in reset.named)
    return TasksReset(tuple(names), reason, by, unless_same=unless_same, by_call=reset.by_call, named=named)


def _not_good(state: State, first: int, size: int) -> list[int]:
    """The tasks of a level that failed, were cancelled, or hold what was undone since; of one that still goes on those
    inside it."""
    found = []
    for number in range(first, first + size):
        task = state.tasks[number]
        if _is_left_out(state, number):
            continue
        if task.dependency_outcome in ("failed", "cancelled") or _is_undone(state, number):
            found.append(number)
        elif task.inner is not None and task.status not in SETTLED:
            found += _not_good(state, task.inner.first, task.inner.size)
    return found


def _is_left_out(state: State, number: int) -> bool:
    return state.tasks[number].reason == "not_selected"


def _is_undone(state: State, number: int) -> bool:
    """Whether what a task did was undone, or anything of what one that went well holds. What of a failure was undone
    belongs to the failure, and the run may have got over that."""
    task_state = state.tasks[number]
    if task_state.status != "completed":
        return task_state.status == "rolled_back"
    frame = task_state.inner if state.compensation_log is not None else None
    return frame is not None and (_holds_undone(state, frame) or _rounds_undone(state, frame))


def _holds_undone(state: State, frame: Frame) -> bool:
    return any(_is_undone(state, inner) for inner in range(frame.first, frame.first + frame.size))


def _rounds_undone(state: State, frame: Frame) -> bool:
    """Whether anything of the rounds before was undone: they are over and cannot be reset by themselves."""
    earlier = frame.earlier
    while earlier is not None and not _holds_undone(state, earlier):
        earlier = earlier.earlier
    return earlier is not None


def _leaves(state: State, number: int) -> list[int]:
    """The tasks inside a failed task that failed or were undone themselves; the task where none was, where it holds
    none, or where rounds that are over were undone."""
    inner = state.tasks[number].inner
    if inner is None or _rounds_undone(state, inner):
        return [number]
    failed = [leaf for each in _not_good(state, inner.first, inner.size) for leaf in _leaves(state, each)]
    return failed or [number]


def _with_levels_above(state: State, number: int) -> set[int]:
    """A task, what follows it on its level, and what follows the tasks around it on theirs."""
    if not is_current(state, number):
        other = state.specs[in_its_place(state, number)].id
        raise Unfit(f"`{state.specs[number].id}` belongs to a round or an attempt that is over; `{other}` can be reset")
    numbers = {number, *_following(state, number)}
    for owner in owners(state, number):
        undoing = state.tasks[owner].inner.undoing  # type: ignore[union-attr]
        if undoing is not None and undoing.active:
            raise Unfit(f"what `{state.specs[owner].id}` did is being undone")
        numbers |= _following(state, owner)
    return numbers


def _following(state: State, number: int) -> set[int]:
    return {other for other in downstream(state, number) if other != number and not _is_left_out(state, other)}


def is_current(state: State, number: int) -> bool:
    """Whether a task belongs to the last round and the last attempt of everything that holds it."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if state.tasks[frame.owner].inner is not frame:
            return False
        frame = state.tasks[frame.owner].frame
    return True


def in_its_place(state: State, number: int) -> int:
    """The task that stands now where one of an earlier round or attempt stood, or what would hold it."""
    first, *rest = [*owners(state, number), number]
    for each in rest:
        inner, place = state.tasks[first].inner, each - state.tasks[each].frame.first
        if inner is None or place >= inner.size:
            return first
        first = inner.first + place
    return first


def _whole(state: State, again: set[int], perhaps: set[int]) -> Reset:
    """With ``done`` and what stands under ``finally`` on every level of which anything is reset; without what goes
    with the task that holds it."""
    every = again | perhaps
    finals = {final for number in every for final in _finals_around(state, number)}
    finals |= {number for number in perhaps if comes_last(state.specs[number])}
    again, perhaps = again | finals, perhaps - again - finals
    again = {number for number in again if again.isdisjoint(owners(state, number))}
    perhaps = {number for number in perhaps if (again | perhaps).isdisjoint(owners(state, number))}
    # what is named inside a task that is only compared runs again there; what stands under `finally` follows from that
    again = {number for number in again if number not in finals or perhaps.isdisjoint(owners(state, number))}
    reset = Reset(tuple(sorted(again)), tuple(sorted(perhaps)))
    for number in (*reset.again, *reset.perhaps):
        status = state.tasks[number].status
        if status in ("running", "in_doubt"):
            raise Unfit(f"`{state.specs[number].id}` is {status.replace('_', ' ')}: resume the run first")
    return reset


def _approved(state: State, reset: Reset) -> Reset:
    """The same. Raises Unfit where the approval of a gate before a task was for another definition of what it
    releases."""
    wanted = {each for number in (*reset.again, *reset.perhaps) for each in (number, *owners(state, number))}
    for gate in sorted(approvals.void(state) - wanted):
        released = approvals.released(state, gate)
        if is_current(state, gate) and (task := next((each for each in released if each in wanted), None)) is not None:
            name, behind = state.specs[gate].id, state.specs[task].id
            raise Unfit(f"`{behind}` comes after the gate `{name}`, and what that releases changed since: name both")
    return reset


def _finals_around(state: State, number: int) -> list[int]:
    finals: list[int] = []
    for each in [*owners(state, number), number]:
        if not state.specs[each].finally_:
            frame = state.tasks[each].frame
            finals += frame.finals if frame.last < 0 else [frame.last, *frame.finals]
    return finals


# Services, which start again with what comes after them


def services_reset(state: State, numbers: Iterable[int]) -> None:
    """Some of these tasks, which were reset, are services."""
    state.use("services")
    for number in numbers:
        if state.specs[number].ready:
            state.restarts[number] = None
    for number, task_state in enumerate(state.tasks):
        if task_state.status == "queued" and waits_for_service(state, number):
            state.queue.remove(state.limited_labels(state.specs[number]), state.specs[number].priority, number)
            move(state, number, task_state, "pending")
        elif task_state.status == "pending" and number in state.wheel.times and waits_for_service(state, number):
            state.wheel.drop(number)


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    """Where the task is a service that started again, what waited for it is looked at; one that did not become ready
    stays listed until it is reset, and keeps what comes after it from starting."""
    number = state.index[event.task]
    if number not in state.restarts or event.status not in SETTLED:
        return
    if state.tasks[number].status != "failed":
        del state.restarts[number]
    for other, task_state in enumerate(state.tasks):
        if task_state.status not in SETTLED:
            state.candidates[other] = None


def waits_for_service(state: State, number: int) -> bool:
    """Whether a task waits for a service that starts again. Where the run stops nothing waits."""
    return not state.stop_reason and any(
        state.tasks[service].status not in SETTLED and _is_after(state, number, service) for service in state.restarts
    )


def omitted_after_service(state: State, number: int) -> Command | None:
    """The end of a task that comes after a service which failed to start again; what may follow failures runs."""
    if state.stop_reason or state.tasks[number].status != "pending" or _top(state, number) in state.shape.tolerant:
        return None
    for service in state.restarts:
        if state.tasks[service].status == "failed" and _is_after(state, number, service):
            why = f"the service `{state.specs[service].id}` failed to start again"
            return settle(state.specs[number], "omitted", "cut_off", why)
    return None


def _is_after(state: State, number: int, service: int) -> bool:
    """Whether a task, or one that contains it, needs the service, at once or through others. Those under ``finally``
    follow the main part, not single tasks of it."""
    top = _top(state, number)
    if state.specs[top].finally_:
        return False
    seen = {top}
    queue = [top]
    for each in queue:
        for need in state.shape.needs[each]:
            if need == service:
                return True
            if need not in seen:
                seen.add(need)
                queue.append(need)
    return False


def _top(state: State, number: int) -> int:
    while (owner := state.tasks[number].frame.owner) >= 0:
        number = owner
    return number
