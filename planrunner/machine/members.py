"""Members of families: ``dive-2``, the second item of ``dive-*``, which a task may need and read by that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame
    from planrunner.machine.state import State

_DIGITS = "0123456789"
_MOST = 9
"""Digits of the number of a member at most."""


class Need(NamedTuple):
    """One need of a task: the task ``number`` that it asks for, or the family where its member does not exist yet or at
    all; ``outcome`` is the dependency outcome, ``name`` that of a member which does not exist, ``lacks`` says why."""

    number: int
    outcome: str
    name: str = ""
    lacks: str = ""


def needed(state: State, number: int) -> list[Need]:
    """What a task needs, in its order: single members where it names those. Up to edition 9 they meant their family."""
    join, tasks = state.specs[number].join, state.tasks
    if not join.named or state.edition < 10:
        return [Need(need, tasks[need].dependency_outcome) for need in state.shape.needs[number]]
    frame = tasks[number].frame
    found = [_need(state, frame, name) for name in join.named]
    return [need for need in found if need is not None]


def waits_for_members(state: State, number: int) -> bool:
    """Whether single items of a family may let a task start."""
    return bool(state.specs[number].join.named) and state.edition > 9


def named_task(state: State, frame: Frame, name: str) -> int | None:
    """The task of a frame that a name means: its id, or a member of a family. A family without items so far stands for
    its members; None for a name that nothing has."""
    if state.edition < 10 or name[-1:] not in _DIGITS or (place := _place(frame, name)) is None:
        return frame.index.get(name)
    family, at = place
    inner = state.tasks[family].inner
    if inner is None:
        return family
    return inner.first + at if at < inner.size else None


def lacking(state: State, frame: Frame, name: str) -> str:
    """Why a family does not have a member of that name; empty for any other name."""
    place = _place(frame, name)
    if place is None or state.edition < 10:
        return ""
    inner = state.tasks[place[0]].inner
    if inner is None or place[1] < inner.size:
        return ""
    return f"does not exist: `{state.specs[place[0]].id}` has {inner.size} item{'' if inner.size == 1 else 's'}"


def _need(state: State, frame: Frame, name: str) -> Need | None:
    tasks = state.tasks
    place = _place(frame, name)
    if place is None:
        number = frame.index.get(name)
        return None if number is None else Need(number, tasks[number].dependency_outcome)
    family, at = place
    inner = tasks[family].inner
    if inner is None:
        return Need(family, tasks[family].dependency_outcome)
    if at >= inner.size:
        return Need(family, "omitted", name, lacking(state, frame, name))
    return Need(inner.first + at, _outcome(state, family, tasks[inner.first + at].dependency_outcome))


def _outcome(state: State, family: int, own: str) -> str:
    """What an item counts as for those that need it alone. Whether it may fail, and what stands in for it then, the
    family says."""
    if own != "failed":
        return own
    if state.specs[family].allow_failure:
        return "tolerated"
    if any(route.edge.recovers for route in state.shape.routes_out.get(family, ())):
        found = state.tasks[family].dependency_outcome
        return found if found in ("", "completed") and state.tasks[family].status != "completed" else own
    return own


def _place(frame: Frame, name: str) -> tuple[int, int] | None:
    """The family of a frame that a name is a member of, and the position of that member. The index of the plan has
    every path of the run as well, so what counts is whether the task of that name stands in the frame itself."""
    if frame.first <= frame.index.get(name, -1) < frame.first + frame.size:
        return None
    for cut in range(max(len(name.rstrip(_DIGITS)), len(name) - _MOST), len(name)):
        family = frame.index.get(f"{name[:cut]}*")
        if family is not None and name[cut] != "0":
            return family, int(name[cut:]) - 1
    return None
