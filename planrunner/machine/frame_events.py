"""Events that few runs meet. Frames: tasks that hold others, a plan, the rounds of a loop or the items of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal

    Json = Any


class FrameOpened(NamedTuple):
    """A task that holds others begins, or goes into its next round: its tasks exist from now on. ``kind`` is
    ``subplan`` (``values``: parameters), ``round`` (``number`` from 1, ``values``: what is carried) or ``items``
    (``values``: the list of items)."""

    task: str
    attempt: int
    kind: Literal["subplan", "round", "items"]
    number: int = 0
    values: Json = None


class FrameClosing(NamedTuple):
    """Nothing of what a task holds starts any more; what runs is stopped. ``reason`` is timeout, cancelled or
    budget, ``comment`` the sentence people read."""

    task: str
    reason: str
    comment: str = ""
