"""What a run owes: which tasks have to be undone, in which order, and which cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from planrunner.machine.events import RollbackStarted
from planrunner.machine.undoing import Debts, Owed, Rollback

if TYPE_CHECKING:
    from planrunner.machine.frame import Frame
    from planrunner.machine.state import State
    from planrunner.plan.model import Budgets, Task


def mine(state: State, number: int) -> list[int]:
    """The positions of what the present visit of a task owes, the first to undo first."""
    debts = state.debts
    if debts is None:
        return []
    visit = state.tasks[number].visit
    return _in_order(debts, [at for at in debts.of.get(number, ()) if debts.owed[at].shown_by == (number, visit)])


def acted(state: State, owed: Owed) -> Task:
    """The task as it was defined when it did what is to be undone."""
    return owed.task or state.specs[owed.number]


def handed_on(debts: Debts, before: tuple[int, int], now: tuple[int, int]) -> None:
    """A visit of a task keeps what another one gave: what that owes is undone as it is, and shows in the new one, which
    owes nothing of its own. Both are a number and a visit."""
    for at in debts.of.get(now[0], ()):
        if debts.owed[at].shown_by == now:
            debts.owed[at].attempt = 0
    for at in list(debts.of.get(before[0], ())):
        owed = debts.owed[at]
        if owed.shown_by == before:
            owed.shown_by = now
            debts.of[before[0]].remove(at)
            debts.of.setdefault(now[0], []).append(at)


def outstanding(state: State) -> list[int]:
    """The positions of everything that is owed and not undone, in the order of undoing; without what the rollback of a
    linked plan undoes by now."""
    debts = state.debts
    if debts is None:
        return []
    taken = set(under_way(state))
    return [at for at in _in_order(debts, range(len(debts.owed))) if at not in taken]


def under_way(state: State) -> list[int]:
    """What the rollbacks of linked plans undo by now, in the order in which they began."""
    rollbacks = [] if state.debts is None else state.debts.frames.values()
    return [at for rollback in rollbacks for at in rollback.todo]


def inside(state: State, owner: int) -> list[int]:
    """The same for what started in the plan that ``owner`` links, in the attempt that goes on."""
    debts = state.debts
    if debts is None:
        return []
    found = debts.inside.get(owner, ())
    return _in_order(debts, [at for at in found if is_within(state, debts.owed[at].number, owner)])


def _in_order(debts: Debts, positions: Iterable[int]) -> list[int]:
    acted = [at for at in positions if debts.owed[at].attempt and debts.owed[at].fate != "undone"]
    return sorted(acted, key=lambda at: -debts.owed[at].rank)


def selected(state: State, positions: Iterable[int], names: Sequence[str]) -> list[int]:
    """Those of ``positions`` whose task, or one that holds it, has one of ``names`` as id, last part of it or label."""
    if not names:
        return list(positions)
    wanted = frozenset(names)
    assert state.debts is not None
    owed = state.debts.owed
    return [
        at
        for at in positions
        if any(not wanted.isdisjoint(_names(state, number)) for number in {owed[at].number, owed[at].shown_by[0]})
    ]


def reserved(state: State, number: int) -> tuple[Budgets, ...]:
    """What is reserved for the rollback of that number, counted from 1; 0 is what a first one of the run would have."""
    policy = state.plan.rollback
    if number and state.debts is not None:
        policy = state.debts.rollbacks[number - 1].policy
    return () if policy is None else (policy.budgets,)


def _names(state: State, number: int) -> set[str]:
    found: set[str] = set()
    for around in _around(state, number):
        task = state.specs[around]
        found |= {task.id, task.id.rpartition("/")[2], *task.labels}
    return found


def bare(state: State, owner: int = -1) -> list[int]:
    """The tasks that may have changed something and do not say how that is undone, nor does one that holds them; with
    an ``owner`` those in the plan that it links."""
    debts = state.debts
    of = debts.of if debts is not None else {}
    frame = state.tasks[owner].inner if owner >= 0 else None
    return [
        number
        for number in range(0 if frame is None else frame.first, len(state.tasks))
        if state.tasks[number].attempts
        and not _is_refused(state, number)
        and number not in state.holders
        and state.trait(state.specs[number]).effect not in ("pure", "read")
        and (frame is None or is_within(state, number, owner))
        and not any(holder in of for holder in _around(state, number, frame))
    ]


def _is_refused(state: State, number: int) -> bool:
    """Whether its only attempt started nothing."""
    found = state.tasks[number]
    return found.attempts == 1 and found.outcome is not None and not found.outcome.acted


def undone_holders(state: State) -> set[int]:
    """The tasks that hold others and completed, of which something inside was undone and nothing is left to undo."""
    debts = state.debts
    assert debts is not None
    undone: set[int] = set()
    left: set[int] = set()
    for owed in debts.owed:
        if owed.attempt:
            (undone if owed.fate == "undone" else left).update(_around(state, owed.number))
    for number in bare(state) if undone else ():
        left.update(_around(state, number))
    return {number for number in undone - left if state.tasks[number].status == "completed"}


def is_within(state: State, number: int, owner: int) -> bool:
    """Whether a task stands, at whatever depth, in the frame that ``owner`` opened last."""
    wanted, frame = state.tasks[owner].inner, state.tasks[number].frame
    while frame is not wanted and frame.owner >= 0:
        frame = state.tasks[frame.owner].frame
    return frame is wanted


def _around(state: State, number: int, outermost: Frame | None = None) -> Iterator[int]:
    """A task and those around it, up to the level ``outermost``."""
    while number >= 0:
        yield number
        frame = state.tasks[number].frame
        number = -1 if frame is outermost else frame.owner


def started(state: State, by: RollbackStarted, positions: Sequence[int]) -> RollbackStarted:
    """The event that undoes ``positions`` in this order."""
    owed = state.debts.owed if state.debts is not None else []
    names = tuple(state.specs[owed[at].number].id for at in positions)
    return by._replace(tasks=names, owed=tuple(positions))


def rests_on(state: State, later: int, earlier: int) -> bool:
    """Whether a task, or one around it, waited for another one or for one around that, however far back."""
    wanted = set(_around(state, earlier))
    todo, seen = [later], {later}
    for number in todo:
        needs = state.shape.needs[number]
        if not wanted.isdisjoint(needs):
            return True
        owner = state.tasks[number].frame.owner
        todo += [other for other in (*needs, owner) if other >= 0 and other not in seen]
        seen.update(todo)
    return False


def takes_back(state: State, task: Task) -> bool:
    """Whether the capability of a task itself undoes what it did, since the plan says nothing else about that."""
    said = task.rollback is not None or task.backup or task.irreversible
    return not said and bool(task.uses) and state.trait(task).undo


def is_saved(state: State, number: int) -> bool:
    """Whether files were saved already for the visit that a task is in."""
    debts, now = state.debts, (number, state.tasks[number].visit)
    if debts is None:
        return False
    return any(debts.owed[at].kind != "action" and debts.owed[at].shown_by == now for at in debts.of.get(number, ()))


def current(debts: Debts, rollback: Rollback) -> Owed | None:
    """What a rollback is undoing; None between two undos."""
    return None if rollback.current is None else debts.owed[rollback.current]


def of_task(debts: Debts, number: int) -> Owed | None:
    """What is being undone of a task."""
    return debts.owed[debts.doing[number]] if number in debts.doing else None


def under(debts: Debts, position: int) -> Rollback:
    """The rollback that undoes a position."""
    return debts.under[position]
