"""The time budget of a task that holds others, while it runs."""

from __future__ import annotations


class Stint:
    """``left`` are the seconds that were left when the time last began to count, at ``since`` (None: it stands still);
    ``due`` is when the task ends in any case, on the time line of the run."""

    __slots__ = ("due", "left", "since")

    def __init__(self, left: float, since: float, due: float | None) -> None:
        self.left = left
        self.since: float | None = since
        self.due = due
