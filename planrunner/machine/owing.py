"""What a run owes: which tasks have to be undone, in which order, and which cannot be."""

from __future__ import annotations

from planrunner.machine.events import RollbackStarted
from planrunner.machine.undoing import Debts, Owed
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planrunner.machine.state import State


def mine(state: State, number: int) -> list[int]:
    """The positions of what the present visit of a task owes, the first to undo first."""
    debts = state.debts
    if debts is None:
        return []
    visit = state.tasks[number].visit
    return _in_order(debts, [at for at in debts.of.get(number, ()) if debts.owed[at].shown_by == (number, visit)])


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
    """The positions of everything that is owed and not undone, in the order of undoing."""
    debts = state.debts
    return [] if debts is None else _in_order(debts, range(len(debts.owed)))


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


def _names(state: State, number: int) -> set[str]:
    found: set[str] = set()
    for around in _around(state, number):
        task = state.specs[around]
        found |= {task.id, task.id.rpartition("/")[2], *task.labels}
    return found


def bare(state: State) -> list[int]:
    """The tasks that may have changed something and do not say how that is undone, nor does one that holds them."""
    debts = state.debts
    of = debts.of if debts is not None else {}
    return [
        number
        for number, found in enumerate(state.tasks)
        if found.attempts
        and number not in state.holders
        and state.trait(state.specs[number]).effect not in ("pure", "read")
        and not any(holder in of for holder in _around(state, number))
    ]


def _around(state: State, number: int) -> Iterator[int]:
    while number >= 0:
        yield number
        number = state.tasks[number].frame.owner


def started(state: State, by: RollbackStarted, positions: Sequence[int]) -> RollbackStarted:
    """The event that undoes ``positions`` in this order."""
    owed = state.debts.owed if state.debts is not None else []
    names = tuple(state.specs[owed[at].number].id for at in positions)
    return by._replace(tasks=names, owed=tuple(positions))


def is_saved(state: State, number: int) -> bool:
    """Whether files were saved already for the visit that a task is in."""
    debts, now = state.debts, (number, state.tasks[number].visit)
    if debts is None:
        return False
    return any((debts.owed[at].kind, debts.owed[at].shown_by) == ("files", now) for at in debts.of.get(number, ()))


def current(debts: Debts) -> Owed | None:
    """What is being undone; None between two undos."""
    return None if debts.current is None else debts.owed[debts.current]


def position(debts: Debts) -> int:
    """Where that stands."""
    assert debts.current is not None
    return debts.current
