"""What a run knows of its checkpoints that hold files."""

from __future__ import annotations


class Checkpointed:
    """A moment is the task, its visit, its attempt and the round (0: all of it). ``asked`` are those for which a
    checkpoint was asked for and not answered, ``taken`` is the last answered one of each task, ``newest`` the newest
    manifest by the patterns that it was made with, ``problems`` by task (or ``task#round``) whether the newest
    checkpoint holds any files, and what it lacks."""

    __slots__ = ("asked", "newest", "problems", "taken")

    def __init__(self) -> None:
        self.asked: set[tuple[int, int, int, int]] = set()
        self.taken: dict[int, tuple[int, int, int, int]] = {}
        self.newest: dict[tuple[str, ...], str] = {}
        self.problems: dict[str, tuple[bool, str]] = {}
