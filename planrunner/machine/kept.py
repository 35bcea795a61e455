"""What a run knows of its checkpoints that hold files."""

from __future__ import annotations


class Kept:
    """``asked`` and ``taken`` are the moments (visit, attempt, round) of each task for which a checkpoint was asked for
    last and taken last; ``newest`` has the newest manifest by the patterns that it was made with; ``problems`` by task
    (or ``task#round``) whether the newest one holds any files, and what it lacks."""

    __slots__ = ("asked", "newest", "problems", "taken")

    def __init__(self) -> None:
        self.asked: dict[int, tuple[int, int, int]] = {}
        self.taken: dict[int, tuple[int, int, int]] = {}
        self.newest: dict[tuple[str, ...], str] = {}
        self.problems: dict[str, tuple[bool, str]] = {}
