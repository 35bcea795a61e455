"""What a run owes: an entry for every task that may have acted and says how it is undone, in the order of starts."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Literal

    from planrunner.machine.events import Outcome

    Json = Any
    Kind = Literal["action", "files"]
    Fate = Literal["", "undone", "failed", "left"]


class Owed:
    """One thing to undo: the ``rollback`` action of a task, or the files that were saved before it started.

    There is one for each visit of a task, whatever number of attempts it took; ``attempt`` is the last of them, 0 while
    none has started. ``outputs`` are those of an earlier visit (None: the task still has them). ``tries`` counts the
    attempts to undo it in the rollback that goes on, ``last`` is the number of the newest one. What has the higher
    ``rank`` started later and is undone earlier. ``shown_by`` is the task, with its visit, that has as its result what
    is to be undone: another one where that was kept when the run began anew.
    """

    __slots__ = (
        "attempt",
        "began",
        "cut",
        "detail",
        "due",
        "ended",
        "fate",
        "files",
        "kind",
        "last",
        "number",
        "outcome",
        "outputs",
        "patterns",
        "rank",
        "reissues",
        "shown_by",
        "tries",
        "visit",
    )

    def __init__(self, kind: Kind, number: int, visit: int) -> None:
        self.kind = kind
        self.number = number
        self.visit = visit
        self.shown_by = (number, visit)
        self.rank = 0
        self.attempt = 0
        self.files: tuple[dict[str, Json], ...] = ()
        self.patterns: tuple[str, ...] = ()
        self.outputs: dict[str, Json] | None = None
        self.fate: Fate = ""
        self.detail = ""
        self.tries = 0
        self.last = 0
        self.reissues = 0
        self.cut = False
        """The end of its newest attempt was not seen: it is issued again."""
        self.outcome: Outcome | None = None
        self.due: float | None = None
        self.began: float | None = None
        self.ended: float | None = None


class Debts:
    """Everything a run owes, and the rollback that goes on or was the last one.

    ``of`` gives the positions in ``owed`` that a task shows; ``todo`` those that the rollback has still to undo,
    the next one first; ``doubts`` are tasks that fail once they are undone, with the positions that are theirs.
    ``counts`` are attempts to undo a task so far, and ``ranks`` the places given away.
    """

    __slots__ = (
        "active",
        "bare",
        "began",
        "by",
        "comment",
        "counts",
        "current",
        "done",
        "doubts",
        "of",
        "owed",
        "problems",
        "ranks",
        "reason",
        "status",
        "strict",
        "through",
        "todo",
    )

    def __init__(self) -> None:
        self.owed: list[Owed] = []
        self.of: dict[int, list[int]] = {}
        self.problems: dict[int, str] = {}
        """Why the files of a task could not be saved."""
        self.ranks = 0
        self.through = 0
        """Rank up to which a rollback of the whole run has looked."""
        self.counts: dict[int, int] = {}
        self.active = False
        self.bare: tuple[str, ...] = ()
        """Tasks that acted and do not say how they are undone."""
        self.reason = ""
        self.strict = False
        self.by = ""
        self.comment = ""
        self.began = 0.0
        self.todo: list[int] = []
        self.current: int | None = None
        self.doubts: dict[int, tuple[int, ...]] = {}
        self.done: dict[int, None] = {}
        """Positions that the last rollback settled, in that order."""
        self.status = ""

    def add(self, owed: Owed) -> int:
        """Register something to undo; gives its position."""
        position = len(self.owed)
        self.owed.append(owed)
        self.of.setdefault(owed.number, []).append(position)
        self.rank(owed)
        return position

    def rank(self, owed: Owed) -> None:
        """It started last: it is the first to be undone."""
        self.ranks += 1
        owed.rank = self.ranks
