"""A run that goes on under another revision of its plan: every task that both have keeps what it came to, new ones
stand beside them, and those that the plan has no more are put away with what is still to be undone of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrunner.machine import approvals, clocks
from planrunner.machine.budgets import chain
from planrunner.machine.events import RunRevised, TasksReset
from planrunner.machine.gates import ask_anew, undemanded
from planrunner.machine.graph import Frame, Shape
from planrunner.machine.hypotheses import note_result
from planrunner.machine.names import frames, held_tasks, owners, replaced_tasks, written_of
from planrunner.machine.reuse import may_keep
from planrunner.machine.rework import FORKED, Unfit, count_needs, downstream, is_current, retried, stop
from planrunner.machine.rights import govern
from planrunner.machine.state import State, TaskState, Trait, divided, member
from planrunner.machine.statuses import SETTLED, IllegalMove, after_settling, free_slot, move, take_slot
from planrunner.machine.stops import FINAL_STOPS
from planrunner.plan.identity import gives_the_same, paths_read, runs_alike
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import written_tasks
from planrunner.records import Struct

CUT_OFF = ("interrupted", "unstarted")


def run_revised(state: State, event: RunRevised, at: float) -> None:
    if state.ended_at is not None:
        raise IllegalMove(f"revision {event.number} came after the end")
    state.status, state.reason = "paused", "revised"
    if state.stop_reason not in FINAL_STOPS:
        state.stop_reason = state.stop_by = state.stop_comment = ""
    if state.active_since is not None:
        state.active += at - event.idle - state.active_since
        state.active_since = None
    if state.meters:
        clocks.meters_paused(state, at - event.idle)
    plan = state.plans[str(event.environment.get("text") or event.plan_digest)]
    state.revision = event.number
    state.proposal = ""
    _come_to_rest(state)
    for name in event.stopped:
        stop(state, state.index[name], at)
    for step in state.compensation_log.steps if state.compensation_log is not None else ():
        step.task = step.task or state.specs[step.number]  # it is undone as the task was defined when it acted
    before = state.plan
    plan = _plan_level(state, event, plan)
    _regraph(state, before, plan)
    for task in state.specs:
        state.use_what_it_asks_for(task)
    state.releases.clear()
    _select(state, event)
    _count(state)
    for number in list(state.running):
        del state.running[number]
        take_slot(state, number)
    if event.asks_again:
        state.approved_digest = event.plan_digest
        ask_anew(state, "the policy, the budgets or the gates of the plan")
    for number, task_state in enumerate(state.tasks):
        if task_state.status not in SETTLED or number in state.recovering:
            state.candidates[number] = None
    _weigh_again(state)
    after_settling(state, state.top)


def _weigh_again(state: State) -> None:
    """What the results of tasks say of hypotheses, by the evidence that the new plan asks for."""
    state.evidence = None
    given = [number for number, task in enumerate(state.specs) if task.evidence]
    replaced = replaced_tasks(state) if given else set()
    for number in given:
        if number not in replaced and state.tasks[number].status in ("completed", "failed"):
            note_result(state, number)


def _come_to_rest(state: State) -> None:
    """What waits for a slot waits for its definition first; slots are counted again."""
    for number in state.queue.numbers():
        task = state.specs[number]
        state.queue.remove(state.limited_labels(task), task.priority, number)
        move(state, number, state.tasks[number], "pending")
    for number in list(state.running):
        free_slot(state, number)
        state.running[number] = None
    state.candidates.clear()


def _plan_level(state: State, event: RunRevised, plan: Plan) -> Plan:
    """What holds for the whole run from now on; gives the plan with what the operator adds."""
    before = state.plan
    state.plan, state.plan_digest = plan, event.plan_digest
    state.params = event.params
    state.traits |= {name: Trait(*trait) for name, trait in event.traits.items()}
    state.saves = state.saves or any(trait.undo for trait in state.traits.values())
    state.foreign = any(trait.taint for trait in state.traits.values())
    state.environment = event.environment
    state.max_parallel = plan.max_parallel if event.max_parallel is None else event.max_parallel
    inside = {label: limit for label, limit in state.limits.items() if "/" in label}
    state.limits = {**inside, **dict(plan.limits)}
    state.restricted = state.restricted or plan.policy is not None
    if plan.breakers != before.breakers:
        state.circuits.clear()
        state.use("breakers")
    had_ledger = state.ledger is not None
    state.limit(plan.budgets)
    state.governed = None
    if event.environment.get("policy"):
        govern(state, event.environment["policy"])
    if state.ledger is not None and not had_ledger:
        _count_what_was(state)
    return state.plan


def _count_what_was(state: State) -> None:
    """Limits hold from now on, and what was done before counts in them. What was spent began a ledger itself."""
    assert state.ledger is not None
    for number, task_state in enumerate(state.tasks):
        if number not in state.containers:
            for scope in chain(state, number):
                spent = state.ledger.account(scope).spent
                spent["attempts"] = spent.get("attempts", 0) + task_state.attempts + task_state.reissues
    for owner, opened in frames(state).items():
        for frame in opened:
            if frame.kind == "round":
                state.ledger.count(chain(state, owner), "iterations")


def _regraph(state: State, before: Plan, plan: Plan) -> None:
    """Number the tasks of the new plan first, then those that are gone, then whatever containers hold."""
    old, gone = state.top, state.gone
    had = len(state.specs)
    known = {} if gone is None else {state.specs[number].id: number for number in _numbers(gone)}
    known |= {state.specs[number].id: number for number in _numbers(old)}
    top = Frame("plan", -1, had, len(plan.tasks))
    top.on_failure = plan.on_failure
    index = state.add(top, plan.tasks, plan.tasks)
    if old.failing:
        state.failing -= 1
    became: dict[int, int] = {}
    for name, number in index.items():
        if name in known:
            _takes_over(state, known[name], number, top)
            became[known[name]] = number
    was_gone = set() if gone is None else set(_numbers(gone))
    left = [number for frame in (old, gone) if frame is not None for number in _numbers(frame) if number not in became]
    away = Frame("plan", -1, 0, len(left))
    away.open = away.finals_open = 0
    for number in left:
        stop(state, number, state.tasks[number].ended or 0.0)
        state.tasks[number].frame = away
        state.tasks[number].revised = state.tasks[number].revised if number in was_gone else state.revision
    rest = [number for number in range(had) if state.tasks[number].frame.owner >= 0]
    state.top, state.gone = top, away if left else None
    away.first = top.first
    order = [*_numbers(top), *left, *rest]
    renumber(state, order, became)
    state.top.first, away.first = 0, top.size
    away.index = {state.specs[number].id: number for number in range(top.size + away.size)}
    state.index = {**away.index, **{task.id: number for number, task in enumerate(state.specs)}, **state.top.index}
    then = {task.id: task for task in before.tasks}
    for number, task in enumerate(plan.tasks):
        if number in state.containers and task.id in then and gives_the_same(then[task.id], task):
            _redefine_inside(state, number)


def _numbers(frame: Frame) -> range:
    return range(frame.first, frame.first + frame.size)


def _takes_over(state: State, old: int, new: int, frame: Frame) -> None:
    """A task of the new plan stands as the one of that name did."""
    state.counts["pending"] -= 1
    task_state = state.tasks[old]
    state.tasks[new], state.tasks[old] = task_state, TaskState(0, task_state.frame)
    if task_state.frame.ended == old:
        frame.ended = new
    task_state.frame = frame
    state.containers.pop(old, None)


def _redefine_inside(state: State, number: int) -> None:
    """What a container holds is defined as the new plan says, where it holds the same tasks."""
    frame, task = state.tasks[number].inner, state.specs[number]
    body: Sequence[Task] = ()
    if task.fanout is not None:
        item = state.containers[number]
        assert item is not None, "a fan-out has the task it multiplies"
        body = (item,)
    else:
        body = held_tasks(state, number)
    while frame is not None:
        alike = len(body) * frame.size if frame.kind == "items" else frame.size
        each = list(body)
        if frame.kind == "items":
            each = [member(task, body[0], value) for value in frame.values]
        names = [state.specs[at].id for at in _numbers(frame)]
        if len(each) == alike and (frame.kind == "items" or _same_names(names, each)):
            if frame.linked is not None:
                frame.linked = task.sub
            for at, name, written in zip(_numbers(frame), names, each):
                state.specs[at] = written._replace(id=name, labels=_labels(state.specs[at], written))
                if at in state.containers:
                    if state.specs[at].fanout is not None:
                        state.specs[at], state.containers[at] = divided(state.specs[at])
                    _redefine_inside(state, at)
        frame = frame.earlier


def _labels(then: Task, now: Task) -> tuple[str, ...]:
    """The labels of a task that a container holds, by its new definition, with those of the limits of linked plans that
    it had (``containers``)."""
    limits = [
        each for each in then.labels if each.endswith("/") or ("/" in each and each.rpartition("/")[2] in now.labels)
    ]
    return tuple(dict.fromkeys((*now.labels, *limits)))


def _same_names(names: list[str], tasks: Sequence[Task]) -> bool:
    return len(names) == len(tasks) and all(name.endswith(f"/{task.id}") for name, task in zip(names, tasks))


def _select(state: State, event: RunRevised) -> None:
    state.selected = None if event.selected is None else frozenset(event.selected)
    if state.selected is None:
        return
    for number in range(state.top.size):
        task_state, task = state.tasks[number], state.specs[number]
        if task.id not in state.selected and not task.finally_ and task_state.status == "pending":
            task_state.reason, task_state.detail = "not_selected", "not selected for this run"
            move(state, number, task_state, "skipped")
            task_state.dependency_outcome = "tolerated"


def _count(state: State) -> None:
    """What of the plan is open, what failed, and what each task still waits for."""
    top = state.top
    top.finals = [number for number in range(top.size) if state.specs[number].finally_]
    open_ = [number for number in range(top.size) if state.tasks[number].status not in SETTLED]
    top.finals_open = sum(state.specs[number].finally_ for number in open_)
    top.open = len(open_) - top.finals_open
    top.failures = [number for number in range(top.size) if state.tasks[number].dependency_outcome == "failed"]
    top.failures.sort(key=lambda number: state.tasks[number].ended or 0.0)
    state.failing += top.failing
    for number in range(top.size):
        count_needs(state, number)


# What is reset


class Stale(Struct):
    """What a revision means for tasks, by number: those that begin ``again``, those that keep their result ``perhaps``
    (each is compared at its turn), and those among the latter that ``surely`` do not. ``new`` have not run before."""

    again: tuple[int, ...] = ()
    perhaps: tuple[int, ...] = ()
    surely: tuple[int, ...] = ()
    new: tuple[int, ...] = ()


def stale(state: State, before: Plan, read: frozenset[str], asks_again: bool, by_call: bool = False) -> Stale:
    """What is reset in a run that was just revised. ``before`` is the plan it had, ``read`` are names whose values
    changed (``params.x``); ``asks_again`` and ``by_call`` are as in the events. Raises Unfit."""
    then = {task.id: task for task in before.tasks}
    top = range(state.top.size)
    new = {number for number in top if _is_new(state, number, then)}
    again, perhaps = _failed(state)
    for number, task in enumerate(state.plan.tasks):
        task_state = state.tasks[number]
        if number in new or is_untouched(task_state):
            continue
        if task_state.reason == "not_selected":
            if state.selected is None or task.id in state.selected:
                again.add(number)
            continue
        old = then.get(task.id)
        other_env = before.env != state.plan.env and task.gate is None
        if old is None or other_env or not _asks_the_same(task_state, old, task):
            (perhaps if number in state.containers else again).add(number)
        elif not runs_alike(old, task):
            (perhaps if task_state.status == "completed" or number in state.containers else again).add(number)
        elif _reads(task, read) or (task.gate is None and _reads(state.plan.env, read)):
            (perhaps if number in state.containers or may_keep(state, number) else again).add(number)
    again -= {number for number in again if _is_answered(state, number) and not _guards(state, number, again | new)}
    every_task = range(len(state.tasks))
    again |= {each for each in every_task if each not in new and undemanded(state, each) and is_current(state, each)}
    _follow(state, again, perhaps, new)
    if asks_again:
        again |= _asked_again(state, again | perhaps | new)
        _follow(state, again, perhaps, new)
    if unfit := {number for number in approvals.void(state) if _guards_what_runs(state, number, again | perhaps | new)}:
        again |= unfit
        _follow(state, again, perhaps, new)
    return _whole(state, again, perhaps, new, by_call)


def is_untouched(task: TaskState) -> bool:
    """Whether nothing was tried, asked or decided of a task: its turn is still to come."""
    return task.status == "pending" and not task.attempts and task.gate is None


def forked(before: State, state: State) -> TasksReset | None:
    """The event by which all gates of a run that was just forked ask again that let something through which is still
    to run; None where none did. What went well after them keeps its result if it would be called as before. ``before``
    is the run that it was forked from, at that place. Raises Unfit where an attempt in doubt comes after one."""
    again: set[int] = set()
    perhaps: set[int] = set()
    for number, task_state in enumerate(before.tasks):
        gate = task_state.gate
        if gate is None or gate.decision not in ("approved", "passed") or gate.stage == "criteria":
            continue
        if number in state.containers and task_state.status not in SETTLED:
            perhaps.add(number)
        elif gate.stage in ("gate", "instruction") and _guards_what_runs(state, number, set()):
            again.add(number)
    if not again and not perhaps:
        return None
    _follow(state, again, perhaps, set())
    which = _whole(state, again, perhaps, set(), True)
    touched = {*which.again, *which.perhaps}
    for number, task_state in enumerate(state.tasks):
        if task_state.status == "in_doubt" and not touched.isdisjoint((number, *owners(state, number))):
            raise Unfit(f"`{state.specs[number].id}` is in doubt, and comes after a gate that asks again")
    changed = {
        approvals.unvisited(state.specs[number].id): approvals.reason(("the run",), by)
        for number, task_state in enumerate(before.tasks)
        if task_state.gate is not None
        and not touched.isdisjoint((number, *owners(state, number)))
        and (by := approvals.approvers(task_state.gate))
    }
    names = tuple(state.specs[number].id for number in (*which.again, *which.perhaps))
    unless_same = tuple(state.specs[number].id for number in which.perhaps)
    return TasksReset(names, FORKED, unless_same=unless_same, named=(), changed=changed)


def _asks_the_same(task_state: TaskState, old: Task, task: Task) -> bool:
    """Whether a task gives the same by another definition. Of a gate that is decided, the time that it left people
    does not count."""
    gate = task_state.gate
    if gate is not None and (gate.decision or gate.verdict):
        old, task = approvals.without_limits(old), approvals.without_limits(task)
    return gives_the_same(old, task)


def _whole(state: State, again: set[int], perhaps: set[int], new: set[int], by_call: bool) -> Stale:
    """With what comes last of the run, and without what goes with the task that holds it."""
    if (again or perhaps or new) and _is_settled(state, state.top.last):
        again.add(state.top.last)
    if again or perhaps:
        again |= {number for number in state.top.finals if _is_settled(state, number)}
    perhaps -= again
    every = again | perhaps
    again = {number for number in again if every.isdisjoint(owners(state, number))}
    perhaps = {number for number in perhaps if every.isdisjoint(owners(state, number))}
    surely = _surely(state, again, perhaps, new, by_call)
    return Stale(tuple(sorted(again)), tuple(sorted(perhaps)), tuple(sorted(surely)), tuple(sorted(new)))


def _is_settled(state: State, number: int) -> bool:
    return number >= 0 and state.tasks[number].status in SETTLED


def _is_new(state: State, number: int, then: dict[str, Task]) -> bool:
    task_state = state.tasks[number]
    untouched = task_state.status in ("pending", "skipped") and not task_state.attempts and task_state.visit == 1
    return state.specs[number].id not in then and untouched


def _failed(state: State) -> tuple[set[int], set[int]]:
    """What did not go well, inside containers too, and what came about all the same after it."""
    try:
        failed = set(retried(state, ()).again)
    except Unfit:
        failed = set()
    for number, task in enumerate(state.tasks):
        if task.status in ("running", "in_doubt") and task.outcome is not None and number not in state.containers:
            if task.outcome.failure and task.outcome.failure not in CUT_OFF:
                failed.add(number)  # a person said that it failed
        elif number < state.top.size and task.status in ("skipped", "omitted") and task.reason != "not_selected":
            failed.add(number)  # decided again, which costs nothing
    well = {number for number in failed if state.tasks[number].status == "completed" and number not in state.containers}
    return failed - well, well


def _reads(part: Task | tuple[tuple[str, str], ...], names: frozenset[str]) -> bool:
    """Whether a task with anything it holds, or a field of a plan, reads one of the names or all of what they belong
    to."""
    if not names:
        return False
    return any(".".join(path[:2]) in names or (path[0] in names and len(path) == 1) for path in paths_read(part))


def _is_answered(state: State, number: int) -> bool:
    return state.specs[number].gate is not None and state.tasks[number].dependency_outcome in ("completed", "tolerated")


def _guards(state: State, number: int, again: set[int]) -> bool:
    """Whether anything after a gate is still to run."""
    return any(
        other in again or state.tasks[other].status not in SETTLED
        for each in (number, *owners(state, number))
        for other in downstream(state, each)
        if other != each
    )


def _asked_again(state: State, again: set[int]) -> set[int]:
    """The gates that people let through, with something after them that is still to run."""
    return {
        number
        for number, task_state in enumerate(state.tasks)
        if task_state.gate is not None
        and task_state.gate.decision == "approved"
        and _is_answered(state, number)
        and _guards_what_runs(state, number, again)
    }


def _guards_what_runs(state: State, number: int, again: set[int]) -> bool:
    is_open = state.tasks[number].status not in SETTLED
    return is_current(state, number) and (is_open or _guards(state, number, again))


def _follow(state: State, again: set[int], perhaps: set[int], new: set[int]) -> None:
    """What comes after is compared at its turn where it went well or holds others, and decided again where not."""
    for number in [*again, *perhaps, *new]:
        for each in (number, *owners(state, number)):
            for other in downstream(state, each):
                task_state = state.tasks[other]
                if other in again or other == each or other in new or task_state.reason == "not_selected":
                    continue
                (perhaps if task_state.status == "completed" or other in state.containers else again).add(other)


def _surely(state: State, again: set[int], perhaps: set[int], new: set[int], by_call: bool) -> set[int]:
    """Those of ``perhaps`` that come directly after what runs, and may not keep their result then."""
    runs = {number for number in again if state.specs[number].gate is None} | new
    certain: set[int] = set()
    todo = [] if by_call else sorted(runs)
    while todo:
        for other in state.shape.following(todo.pop()):
            task = state.specs[other]
            bare = other in perhaps and other not in state.containers and task.gate is None
            if bare and other not in certain and not may_keep(state, other):
                certain.add(other)
                todo.append(other)
    return certain


def _changed_inside(before: State, state: State, number: int, around: Task) -> list[str]:
    """The names of what a gate releases otherwise that asked in a container which opens again; the container's where
    it holds other tasks than before."""
    then, now = written_tasks(before.plan), written_tasks(state.plan)
    at = before.index[state.specs[number].id]
    paths = dict.fromkeys(written_of(before.specs[each].id) for each in (at, *approvals.released(before, at)))
    names = [path for path in paths if path in then and approvals.differs(then[path], now.get(path))]
    inside = f"{written_of(around.id)}/"
    others = {path for path in {*then} ^ {*now} if path.startswith(inside)}
    return names or ([around.id] if others else [])


def _why_again(before: State, state: State, number: int, stale: Stale) -> str:
    """Why a gate that people approved of asks again, where it is reset, or where what holds it opens again."""
    gate = state.tasks[number].gate
    if gate is None or not (by := approvals.approvers(gate)):
        return ""
    around = [owner for owner in owners(state, number) if owner in stale.again or owner in stale.perhaps]
    if around:
        names = _changed_inside(before, state, number, state.specs[around[0]])
        if not names and is_current(state, number) and not approvals.stands(state, number, gate):
            names = list(approvals.changes(before, state, number, gate))
        return approvals.reason(names, by) if names else ""
    if number not in stale.again or approvals.stands(state, number, gate):
        return ""
    return approvals.reason(approvals.changes(before, state, number, gate), by)


def reset_event(before: State, state: State, stale: Stale, by: str, by_call: bool) -> TasksReset | None:
    """The event that resets them; None where nothing does. ``before`` is the run before its revision."""
    names = [state.specs[number].id for number in (*stale.again, *stale.perhaps)]
    if not names:
        return None
    unless_same = tuple(state.specs[number].id for number in stale.perhaps)
    changed = {
        approvals.unvisited(state.specs[number].id): why
        for number, task_state in enumerate(state.tasks)
        if task_state.gate is not None and (why := _why_again(before, state, number, stale))
    }
    return TasksReset(tuple(names), "revised", by, unless_same=unless_same, by_call=by_call, named=(), changed=changed)


# Numbers


def renumber(state: State, order: Sequence[int], became: dict[int, int]) -> None:
    """Put the tasks into another order: ``order`` names them by the numbers they have. What was known under a number
    that ``became`` another one is known under that; the former is gone."""
    to = {old: new for new, old in enumerate(order)}
    to |= {old: to[new] for old, new in became.items()}
    every = _every_frame(state)
    state.specs = [state.specs[old] for old in order]
    state.tasks = [state.tasks[old] for old in order]
    for frame in every:
        _renumber_frame(frame, to)
    for task_state in state.tasks:
        task_state.broken = to.get(task_state.broken, -1)
        if task_state.kept is not None:
            task_state.kept = task_state.kept._replace(number=to[task_state.kept.number])
    _renumber_shape(state.shape, order, to)
    for name in (
        "containers",
        "sent_back",
        "held",
        "turns",
        "restarts",
        "freshness",
        "meters",
        "recovering",
        "running",
    ):
        setattr(state, name, _by_new(getattr(state, name), to))
    state.asked = {to[number] for number in state.asked if number in to}
    state.candidates = _by_new(state.candidates, to)
    state.wheel.renumber(to)
    state.index = {name: to[number] for name, number in state.index.items() if number in to}
    _renumber_rest(state, to)


def _by_new(entries: dict[int, Any], to: dict[int, int]) -> dict[int, Any]:
    return {to.get(number, number): value for number, value in entries.items() if number in to or number < 0}


def _every_frame(state: State) -> list[Frame]:
    """Every frame that anything may still ask about."""
    frames: dict[int, Frame] = {}
    todo: list[Frame | None] = [state.top, state.gone]
    for task in state.tasks:
        todo += (task.frame, task.inner, None if task.kept is None else task.kept.frame)
    while todo:
        frame = todo.pop()
        if frame is not None and id(frame) not in frames:
            frames[id(frame)] = frame
            todo += (frame.earlier, frame.before)
    return list(frames.values())


def _renumber_frame(frame: Frame, to: dict[int, int]) -> None:
    first = to.get(frame.first, 0)
    if frame.limit:
        frame.limit += first - frame.first
    frame.first = first
    if frame.owner >= 0:
        frame.owner = to[frame.owner]
    frame.failures = [to[number] for number in frame.failures if number in to]
    frame.last, frame.ended = to.get(frame.last, -1), to.get(frame.ended, -1)
    frame.finals = [to[number] for number in frame.finals if number in to]
    frame.renewed = {to[number] for number in frame.renewed if number in to}
    frame.index = {name: to[number] for name, number in frame.index.items() if number in to}


def _renumber_shape(shape: Shape, order: Sequence[int], to: dict[int, int]) -> None:
    shape.needs = [tuple([to[need] for need in shape.needs[old]]) for old in order]
    shape.dependents = [[to[each] for each in shape.dependents[old]] for old in order]
    kept = set(order)
    for routes in (shape.routes_in, shape.routes_out, shape.reworks):
        for number in [number for number in routes if number not in kept]:
            del routes[number]
    moved = {
        id(route): route
        for routes in (shape.routes_in, shape.routes_out, shape.reworks)
        for line in routes.values()
        for route in line
    }
    for route in moved.values():
        route.source, route.target = to[route.source], to[route.target]
    shape.routes_in = _by_new(shape.routes_in, to)
    shape.routes_out = _by_new(shape.routes_out, to)
    shape.reworks = _by_new(shape.reworks, to)
    shape.uncounted = {to[number] for number in shape.uncounted if number in kept}
    shape.tolerant = {to[number] for number in shape.tolerant if number in kept}


def _renumber_rest(state: State, to: dict[int, int]) -> None:
    compensation_log = state.compensation_log
    if compensation_log is not None:
        for step in compensation_log.steps:
            step.number, step.shown_by = to[step.number], (to[step.shown_by[0]], step.shown_by[1])
        for name in ("of", "inside", "problems", "counts", "frames", "doing"):
            setattr(compensation_log, name, _by_new(getattr(compensation_log, name), to))
        for rollback in {id(each): each for each in (compensation_log.main, *compensation_log.rollbacks)}.values():
            rollback.owner = to.get(rollback.owner, rollback.owner)
            rollback.doubts = _by_new(rollback.doubts, to)
    if (ledger := state.ledger) is not None:
        ledger.accounts, ledger.holdings = _by_new(ledger.accounts, to), _by_new(ledger.holdings, to)
        for name in ("extra", "crossed", "refused"):
            known: dict[tuple[int, str], Any] = getattr(ledger, name)
            setattr(ledger, name, {(to.get(number, number), what): known[number, what] for number, what in known})
        ledger.over = [over._replace(number=to[over.number]) for over in ledger.over if over.number in to]
    if (alarms := state.alarms) is not None:
        alarms.begun, alarms.stopping = _by_new(alarms.begun, to), _by_new(alarms.stopping, to)
    for circuit in state.circuits.values():
        circuit.trial = to.get(circuit.trial, -1)
        circuit.waiting = _by_new(circuit.waiting, to)
    if (checkpoints := state.checkpoints) is not None:
        checkpoints.asked = {(to[moment[0]], *moment[1:]) for moment in checkpoints.asked if moment[0] in to}
        checkpoints.taken = {
            to[number]: (to[moment[0]], *moment[1:]) for number, moment in checkpoints.taken.items() if number in to
        }
