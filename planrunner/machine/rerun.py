"""Which tasks a person's ``retry`` or ``rerun`` begins anew, and which only if their inputs have changed by then."""

from __future__ import annotations

from planrunner.machine.events import TasksReset
from planrunner.machine.rework import downstream
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planrunner.machine.state import State

_GOOD = ("completed", "tolerated", "skipped")


class Unfit(Exception):
    """A task cannot begin anew; the message says why."""


class Anew(NamedTuple):
    """Numbers of the tasks that begin anew: in any case, and those that are left as they are when the call they would
    make is the one they made."""

    again: tuple[int, ...]
    perhaps: tuple[int, ...] = ()


def retried(state: State, wanted: Iterable[int]) -> Anew:
    """The failed and cancelled tasks among ``wanted`` (none given: all there are), inside tasks that hold others too,
    and everything that did not come about because of them. Raises Unfit."""
    chosen = list(wanted) or _not_good(state, state.top.first, state.top.size)
    leaves = sorted({leaf for number in chosen for leaf in _leaves(state, number)})
    if not leaves:
        raise Unfit("no task of the run failed or was cancelled")
    found = {other for leaf in leaves for other in _with_levels_above(state, leaf)}
    return _checked(state, Anew(tuple(_outermost(state, found))))


def run_again(state: State, wanted: Iterable[int], *, all_after: bool, only_failed: bool) -> Anew:
    """``wanted`` in any case. What comes after is looked at as well: begun anew with ``all_after``, otherwise only if
    its inputs have changed; with ``only_failed`` what went well stays. Raises Unfit."""
    first = set(wanted)
    after = {other for number in first for other in _with_levels_above(state, number)} - first
    if only_failed:
        first = {number for number in first if state.tasks[number].standing not in _GOOD}
        after = {number for number in after if state.tasks[number].standing not in _GOOD}
    again, perhaps = (first | after, set()) if all_after else (first, after)
    if not again | perhaps:
        raise Unfit("every one of these tasks went well")
    return _checked(state, Anew(tuple(_outermost(state, again)), tuple(_outermost(state, perhaps, again))))


def _outermost(state: State, numbers: Iterable[int], others: Iterable[int] = ()) -> list[int]:
    """The tasks in their order without those inside one that begins anew as well: that opens its level again."""
    known = {*numbers, *others}
    found = []
    for number in sorted(set(numbers)):
        owner = state.tasks[number].frame.owner
        while owner >= 0 and owner not in known:
            owner = state.tasks[owner].frame.owner
        if owner < 0:
            found.append(number)
    return found


def reset_event(state: State, anew: Anew, reason: str, by: str) -> TasksReset:
    """The event that begins them anew."""
    names = [state.specs[number].id for number in (*anew.again, *anew.perhaps)]
    return TasksReset(tuple(names), reason, by, unless_same=tuple(state.specs[number].id for number in anew.perhaps))


def _not_good(state: State, first: int, size: int) -> list[int]:
    return [
        number
        for number in range(first, first + size)
        if state.tasks[number].standing in ("failed", "cancelled") and state.tasks[number].reason != "not_selected"
    ]


def _leaves(state: State, number: int) -> list[int]:
    """The tasks inside a failed task that failed themselves; the task where none did, or where it holds none."""
    inner = state.tasks[number].inner
    if inner is None:
        return [number]
    failed = [leaf for each in _not_good(state, inner.first, inner.size) for leaf in _leaves(state, each)]
    return failed or [number]


def _with_levels_above(state: State, number: int) -> set[int]:
    """A task, what follows it on its level, and what follows the tasks around it on theirs."""
    found = set(downstream(state, number))
    owner = state.tasks[number].frame.owner
    while owner >= 0:
        if state.tasks[owner].inner is not state.tasks[number].frame:
            raise Unfit(f"`{state.specs[number].id}` belongs to a round or an attempt that is over")
        undoing = state.tasks[number].frame.undoing
        if undoing is not None and undoing.active:
            raise Unfit(f"what `{state.specs[owner].id}` did is being undone")
        found.update(downstream(state, owner)[:])
        found.discard(owner)
        number, owner = owner, state.tasks[owner].frame.owner
    return found


def _checked(state: State, anew: Anew) -> Anew:
    for number in (*anew.again, *anew.perhaps):
        found = state.tasks[number]
        if found.status in ("running", "in_doubt"):
            raise Unfit(f"`{state.specs[number].id}` is {found.status.replace('_', ' ')}")
    return anew
