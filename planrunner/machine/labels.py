"""Names of tasks for people: an item of a matrix is called by its values, ``test[seed=1]`` for ``test[0]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planrunner.machine.state import State

Json = Any

LONGEST = 28
"""Characters of one value at most; an item with a longer one, or with signs that paths are made of, keeps its index."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+:")


def label(state: State, number: int) -> str:
    """The path of a task in which items of matrices stand by their values. ``named`` finds the task by it."""
    path = state.specs[number].id
    at = number
    while (frame := state.tasks[at].frame).owner >= 0:
        if values := item_label(state, at):
            own = state.specs[at].id
            path = own[: own.rindex("[")] + values + path[len(own) :]
        at = frame.owner
    return path


def labelled(state: State, text: str) -> str:
    """A sentence in which the paths between backticks stand as ``label`` gives them."""
    if "[" not in text:
        return text
    parts = text.split("`")
    for place, part in enumerate(parts):
        number = state.index.get(part)
        if number is not None:
            parts[place] = label(state, number)
    return "`".join(parts)


def item_label(state: State, number: int) -> str:
    """``[seed=1,os=linux]`` for an item of a matrix; empty for any other task."""
    frame = state.tasks[number].frame
    if frame.kind != "items":
        return ""
    fanout = state.specs[frame.owner].fanout
    if fanout is None or fanout.matrix is None:
        return ""
    parts = [f"{axis}={_word(value)}" for axis, value in frame.values[number - frame.first].items()]
    return "" if any(part.endswith("=") for part in parts) else f"[{','.join(parts)}]"


def _word(value: Json) -> str:
    """A value of an axis as part of a name; empty where it cannot be one."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if isinstance(value, (str, int, float)) and len(text) <= LONGEST and _PLAIN.issuperset(text) else ""
