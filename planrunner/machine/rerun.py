"""Which tasks a person's ``retry`` or ``rerun`` begins anew, and which only if their inputs have changed by then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from planrunner.machine.events import TasksReset
from planrunner.machine.frame import Frame
from planrunner.machine.keeping import may_keep
from planrunner.machine.paths import owners
from planrunner.machine.rework import downstream
from planrunner.machine.state import State
from planrunner.plan.tasks import comes_last

_GOOD = ("completed", "tolerated", "skipped")


class Unfit(Exception):
    """A task cannot begin anew; the message says why."""


class Anew(NamedTuple):
    """Numbers of the tasks that begin anew: in any case, and those that are left as they are when the call they would
    make is the one they made. A task of the latter that holds others is opened, and each task inside it is compared; of
    those only what is among the former as well surely runs. ``by_call`` is as in ``TasksReset``; ``named`` are
    those that somebody asked for by name."""

    again: tuple[int, ...]
    perhaps: tuple[int, ...] = ()
    by_call: bool = False
    named: tuple[int, ...] = ()


def retried(state: State, wanted: Iterable[int]) -> Anew:
    """The tasks among ``wanted`` (none given: all there are) that failed, were cancelled or were undone, inside tasks
    that hold others too, everything that did not come about because of them, and what stands under ``finally`` around
    them. Raises Unfit."""
    chosen = list(wanted) or _not_good(state, state.top.first, state.top.size)
    leaves = sorted({leaf for number in chosen for leaf in _leaves(state, number)})
    if not leaves:
        raise Unfit("no task of the run failed, was cancelled or was undone")
    found = {other for leaf in leaves for other in _with_levels_above(state, leaf)}
    for number in leaves:
        if state.tasks[number].status == "completed" and not _is_undone(state, number):
            name = state.specs[number].id
            raise Unfit(f"`{name}` went well; `planrunner rerun {state.run_id} '{name}'` runs it again all the same")
    return _whole(state, found, set())._replace(named=tuple(leaves))


def run_again(
    state: State, wanted: Iterable[int], *, all_after: bool = False, by_call: bool = False, only_failed: bool = False
) -> Anew:
    """``wanted`` in any case, and what stands under ``finally`` around anything that begins anew. What comes after is
    done again too, but for what may keep its result; with ``all_after`` nothing may, with ``by_call`` everything that
    would be called as before. With ``only_failed`` what went well stays. Raises Unfit."""
    first = set(wanted)
    after = {other for number in first for other in _with_levels_above(state, number)} - first
    if only_failed:
        first = {number for number in first if state.tasks[number].standing not in _GOOD}
        after = {number for number in after if state.tasks[number].standing not in _GOOD}
    if not first | after:
        raise Unfit("every one of these tasks went well")
    named = tuple(sorted(first))
    if all_after:
        return _whole(state, first | after, set())._replace(named=named)
    perhaps = {each for each in after if (by_call and not state.specs[each].renewed) or may_keep(state, each)}
    return _whole(state, first | (after - perhaps), perhaps)._replace(by_call=by_call, named=named)


def reset_event(state: State, anew: Anew, reason: str, by: str) -> TasksReset:
    """The event that begins them anew."""
    names = [state.specs[number].id for number in (*anew.again, *anew.perhaps)]
    unless_same = tuple(state.specs[number].id for number in anew.perhaps)
    named = tuple(state.specs[number].id for number in anew.named)
    return TasksReset(tuple(names), reason, by, unless_same=unless_same, by_call=anew.by_call, named=named)


def _not_good(state: State, first: int, size: int) -> list[int]:
    """The tasks of a level that failed, were cancelled, or hold what was undone since."""
    return [
        number
        for number in range(first, first + size)
        if not _is_left_out(state, number)
        and (state.tasks[number].standing in ("failed", "cancelled") or _is_undone(state, number))
    ]


def _is_left_out(state: State, number: int) -> bool:
    return state.tasks[number].reason == "not_selected"


def _is_undone(state: State, number: int) -> bool:
    """Whether what a task did was undone, or anything of what one that went well holds. What of a failure was undone
    belongs to the failure, and the run may have got over that."""
    found = state.tasks[number]
    if found.status != "completed":
        return found.status == "rolled_back"
    frame = found.inner if state.debts is not None else None
    return frame is not None and (_holds_undone(state, frame) or _rounds_undone(state, frame))


def _holds_undone(state: State, frame: Frame) -> bool:
    return any(_is_undone(state, inner) for inner in range(frame.first, frame.first + frame.size))


def _rounds_undone(state: State, frame: Frame) -> bool:
    """Whether anything of the rounds before was undone: they are over and cannot begin anew by themselves."""
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
        raise Unfit(
            f"`{state.specs[number].id}` belongs to a round or an attempt that is over; `{other}` can begin anew"
        )
    found = {number, *_following(state, number)}
    for owner in owners(state, number):
        undoing = state.tasks[owner].inner.undoing  # type: ignore[union-attr]
        if undoing is not None and undoing.active:
            raise Unfit(f"what `{state.specs[owner].id}` did is being undone")
        found |= _following(state, owner)
    return found


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


def _whole(state: State, again: set[int], perhaps: set[int]) -> Anew:
    """With ``done`` and what stands under ``finally`` on every level of which anything begins anew; without what goes
    with the task that holds it."""
    every = again | perhaps
    finals = {final for number in every for final in _finals_around(state, number)}
    finals |= {number for number in perhaps if comes_last(state.specs[number])}
    again, perhaps = again | finals, perhaps - again - finals
    again = {number for number in again if again.isdisjoint(owners(state, number))}
    perhaps = {number for number in perhaps if (again | perhaps).isdisjoint(owners(state, number))}
    # what is named inside a task that is only compared runs again there; what stands under `finally` follows from that
    again = {number for number in again if number not in finals or perhaps.isdisjoint(owners(state, number))}
    return _checked(state, Anew(tuple(sorted(again)), tuple(sorted(perhaps))))


def _finals_around(state: State, number: int) -> list[int]:
    found: list[int] = []
    for each in [*owners(state, number), number]:
        if not state.specs[each].finally_:
            frame = state.tasks[each].frame
            found += frame.finals if frame.last < 0 else [frame.last, *frame.finals]
    return found


def _checked(state: State, anew: Anew) -> Anew:
    for number in (*anew.again, *anew.perhaps):
        found = state.tasks[number]
        if found.status in ("running", "in_doubt"):
            words = found.status.replace("_", " ")
            raise Unfit(f"`{state.specs[number].id}` is {words}: resume the run first")
    return anew
