"""Reuse: whether a task is done already, or keeps the result that it had before it was reset."""

from __future__ import annotations

from planrunner.jsontext import stable_json
from planrunner.machine.approvals import stands, unvisited
from planrunner.machine.budgets import chain, limit_of
from planrunner.machine.commands import AskFacts, AskFresh, Command, Compare, Record
from planrunner.machine.compensation import handed_on
from planrunner.machine.events import FreshnessAsked, FreshnessSeen, Outcome, TaskSettled
from planrunner.machine.graph import Frame
from planrunner.machine.scope import TaskScope, facts_of
from planrunner.machine.state import Kept, State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError
from planrunner.plan.identity import gives_the_same
from planrunner.plan.tasks import comes_last


def may_keep(state: State, number: int) -> bool:
    """Whether the result of a task stands as long as its call is the same, or its ``fresh`` tells when it stands.

    A call tells the whole of what is pure, of what the task itself declares to be ``effect: read``, and of questions
    that cost money. Whatever else reads or changes files and services that no call shows. A container may keep
    something where a task inside it may.
    """
    if state.specs[number].renewed:
        return False
    if number in state.containers:
        return any(may_keep(state, each) for each in inside(state, number))
    return state.specs[number].fresh is not None or _is_told_by_call(state, number)


def _is_told_by_call(state: State, number: int) -> bool:
    task = state.specs[number]
    trait = state.trait(task)
    return trait.effect == "pure" or (trait.effect == "read" and (task.effect is not None or "cost" in trait.spends))


def inside(state: State, owner: int) -> list[int]:
    """The tasks without others inside that a container holds as it stands, of every round."""
    numbers: list[int] = []
    frame = state.tasks[owner].inner
    while frame is not None:
        for number in _numbers(frame):
            numbers += inside(state, number) if number in state.containers else [number]
        frame = frame.earlier
    return sorted(numbers)


def of(state: State, number: int, by_call: bool, since: float | None = None) -> Kept | None:
    """What a task may keep when it is reset: its result, or what each task inside it may keep. With ``by_call`` an
    equal call is enough for every task, otherwise ``may_keep`` says for which; ``since`` is as in ``Kept``."""
    task_state = state.tasks[number]
    if state.specs[number].renewed:
        return None
    if number in state.containers:
        return (
            None
            if task_state.inner is None
            else Kept(number, task_state.visit, "", None, task_state.inner, by_call, since)
        )
    by_call = by_call or since is not None
    if task_state.status != "completed" or task_state.outcome is None or not (by_call or may_keep(state, number)):
        return None
    told = task_state.reason != "fresh" and (by_call or _is_told_by_call(state, number))
    inputs = task_state.inputs if told else _NEVER_CALLED
    return Kept(number, task_state.visit, inputs, task_state.outcome, None, False, since, task_state.gate)


_NEVER_CALLED = "never"
"""In place of a digest: only whether it is done already can tell that such a task need not run."""


def taken_along(state: State, owner: int, frame: Frame, attempt: int) -> None:
    """The tasks of a frame that opens take the results of those of the time before with them."""
    task_state = state.tasks[owner]
    kept = task_state.kept
    before = None if kept is None else kept.frame
    if kept is None or before is None or attempt != task_state.past + 1:
        return
    if _counts_rounds(state, owner) or _tidies_up(state, owner):
        return
    if frame.kind == "round":
        while before is not None and before.round != frame.round:
            before = before.earlier
        if frame.earlier is not None and not is_unchanged(state, frame.earlier):
            return
    if before is None or before.kind != frame.kind:
        return
    frame.before = before
    pairs = _pairs(frame, before) if kept.since is None else _alike(state, frame, before)
    for number, other in pairs:
        if other not in before.renewed:
            state.tasks[number].kept = of(state, other, kept.by_call, kept.since)
            state.tasks[number].rework = state.tasks[other].rework


def _counts_rounds(state: State, owner: int) -> bool:
    """A limit counts the rounds of a loop, so that each of them is a round that runs."""
    if state.ledger is None or state.specs[owner].loop is None:
        return False
    return any(limit_of(state, scope, "iterations") is not None for scope in chain(state, owner))


def _pairs(frame: Frame, before: Frame) -> list[tuple[int, int]]:
    """Which task of a frame is compared with which of the frame before it, by number."""
    if frame.kind != "items":
        return [(frame.first + at, before.first + at) for at in range(min(frame.size, before.size))]
    wanted, had = ([stable_json(value) for value in each.values] for each in (frame, before))
    pairs = {at: at for at in range(min(len(wanted), len(had))) if wanted[at] == had[at]}
    free: dict[str, list[int]] = {}
    for at in range(len(had) - 1, -1, -1):
        if pairs.get(at) is None:
            free.setdefault(had[at], []).append(at)
    for at, value in enumerate(wanted):
        if at not in pairs and free.get(value):
            pairs[at] = free[value].pop()
    taken = set(pairs.values())
    pairs |= {at: at for at in range(min(len(wanted), len(had))) if at not in pairs and at not in taken}
    return [(frame.first + at, before.first + other) for at, other in sorted(pairs.items())]


def _alike(state: State, frame: Frame, before: Frame) -> list[tuple[int, int]]:
    """The same where the plan was revised meanwhile: what holds nothing is compared where it is defined as it was."""
    pairs = _pairs(frame, before)
    if frame.kind != "items":
        pairs = [(number, before.index[name]) for name, number in frame.index.items() if name in before.index]
    return [
        (number, other)
        for number, other in pairs
        if number in state.containers or gives_the_same(state.specs[number], state.specs[other])
    ]


def is_unchanged(state: State, frame: Frame, finals: bool = True) -> bool:
    """Whether everything of a frame kept what it gave the time before; ``finals`` counts what comes last
    (``done``, ``finally``) as well."""
    before = frame.before
    if before is None or before.size != frame.size:
        return False
    now = [number for number in _numbers(frame) if finals or not comes_last(state.specs[number])]
    then = [number for number in _numbers(before) if finals or not comes_last(state.specs[number])]
    kept = sum(state.tasks[number].reason == "reused" for number in now)
    idle = sum(state.tasks[number].status in ("skipped", "omitted") for number in now)
    return kept + idle == len(now) and kept == sum(state.tasks[number].status == "completed" for number in then)


def _numbers(frame: Frame) -> range:
    return range(frame.first, frame.first + frame.size)


def is_all_kept(state: State, number: int) -> bool:
    """Whether a task that holds others ends with nothing inside it but what was kept."""
    task_state = state.tasks[number]
    last = task_state.inner
    if (
        task_state.kept is None
        or task_state.kept.frame is None
        or last is None
        or last.round != task_state.kept.frame.round
    ):
        return False
    frame: Frame | None = last
    while frame is not None:
        if not is_unchanged(state, frame):
            return False
        frame = frame.earlier
    return True


def compared(state: State, number: int) -> Compare | None:
    """What comes before the start of a task that keeps its result if it would be called as before; None where it has to
    run. What stands under ``finally`` runs again whenever anything of its level did; files that are declared as inputs
    and have changed count as another call."""
    task, task_state = state.specs[number], state.tasks[number]
    kept = task_state.kept
    if kept is None or kept.outcome is None or _tidies_up(state, number):
        return None
    if kept.since is not None and not may_keep(state, number) and _follows_change(state, number, kept.since):
        return None
    seen = state.freshness.get(number)
    by_files = task.fresh is not None and bool(task.fresh.inputs or task.fresh.outputs)
    return None if seen is not None and by_files and not seen.same else Compare(number)


def _follows_change(state: State, number: int, since: float) -> bool:
    """Whether anything ran since that a task, or a container around it, comes directly after."""
    while number >= 0:
        before = [*state.shape.needs[number], *(route.source for route in state.shape.routes_in.get(number, ()))]
        for other in before:
            task_state = state.tasks[other]
            if task_state.reason != "reused" and task_state.started is not None and task_state.started >= since:
                return True
        number = state.tasks[number].frame.owner
    return False


def is_still_approved(state: State, number: int) -> bool:
    """Whether a gate of a revised plan keeps the answer it has: it asks what it asked and releases
    what it released, after nothing that ran since."""
    kept = state.tasks[number].kept
    if kept is None or kept.since is None or kept.outcome is None:
        return False
    if kept.gate is not None and not stands(state, number, kept.gate):
        return False
    return not _follows_change(state, number, kept.since)


def _tidies_up(state: State, number: int) -> bool:
    """Whether a task comes after everything else of a level on which something ran."""
    return comes_last(state.specs[number]) and not is_unchanged(state, state.tasks[number].frame, finals=False)


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    """A task ends with what the time before gave, and owes what that owes."""
    if event.reason not in ("reused", "fresh"):
        return
    number = state.index[event.task]
    task_state = state.tasks[number]
    if event.reason == "fresh":
        seen = state.freshness[number]
        task_state.outcome = Outcome(outputs=seen.outputs, artifacts=seen.artifacts)
    _keeps(state, number, event)
    if task_state.outcome is not None:
        task_state.outputs = task_state.outcome.outputs


def _keeps(state: State, number: int, event: TaskSettled) -> None:
    task_state = state.tasks[number]
    kept, task_state.kept = task_state.kept, None
    if kept is None:
        return
    if kept.outcome is not None and event.reason == "reused":
        task_state.outcome, task_state.inputs = kept.outcome, kept.inputs
        if state.specs[number].gate is not None:
            task_state.gate = kept.gate
            state.again.pop(unvisited(event.task), None)
    if state.compensation_log is not None:
        handed_on(state.compensation_log, (kept.number, kept.visit), (number, task_state.visit))


def freshness_first(state: State, number: int) -> Command | None:
    """What comes before the start of a task that may be done already; None where it has to be done.

    A task that a person sent back or runs again is done again, and so is one that was tried.
    """
    task, task_state = state.specs[number], state.tasks[number]
    fresh = task.fresh
    if fresh is None or task_state.attempts > task_state.past:
        return None
    seen = state.freshness.get(number)
    if seen is None:
        return AskFresh(number)
    if state.environment.get("forced") or (task_state.kept is None and _is_done_again(state, number)):
        return None
    if seen.fault:
        return Record(TaskSettled(task.id, "failed", "fresh_files", f"`fresh`: {seen.fault}", "logic"))
    if seen.same:
        return _done(state, number, seen, f"done already: inputs unchanged since run {seen.since}")
    if fresh.condition is None:
        return None
    names = facts_of(fresh.condition)
    if any(name not in (task_state.facts or {}) for name in names):
        return AskFacts(number, names)
    try:
        holds = truth(fresh.condition.tree, TaskScope(state, number))
    except EvaluationError as error:
        why = f"`fresh: {fresh.condition.text}` has no value: {error}"
        return Record(TaskSettled(state.specs[number].id, "failed", "fresh_condition", why, "logic"))
    return _done(state, number, seen, f"done already: `{fresh.condition.text}`") if holds else None


def _is_done_again(state: State, number: int) -> bool:
    """Whether it, or what holds it, is reset since a person said so."""
    while number >= 0:
        if state.tasks[number].visit > 1:
            return True
        number = state.tasks[number].frame.owner
    return False


def _done(state: State, number: int, seen: FreshnessSeen, detail: str) -> Record:
    return Record(TaskSettled(state.specs[number].id, "completed", "fresh", detail))


def freshness_asked(state: State, event: FreshnessAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def freshness_seen(state: State, event: FreshnessSeen, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    state.freshness[number] = event
