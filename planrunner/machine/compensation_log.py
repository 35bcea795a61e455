"""The compensation log: an entry for every task that may have acted and says how it is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from planrunner.machine.events import Outcome
    from planrunner.plan.model import RollbackPolicy, Task

Json = Any
Kind = Literal["action", "files", "capability"]
Fate = Literal["", "undone", "failed", "left"]


class UndoStep:
    """One thing to undo: the ``rollback`` action of a task, the files that were saved before it started, or what its
    capability did, by what it noted before.

    There is one for each visit of a task, whatever number of attempts it took; ``attempt`` is the last of them, 0 while
    none has started, and ``acted`` the last that did something. ``outputs`` are those of an earlier visit (None: the
    task still has them). ``tries`` counts the attempts to undo it in the rollback that goes on, ``last`` is the number
    of the newest one. What has the higher ``rank`` started later and is undone earlier. ``shown_by`` is the task, with
    its visit, that has as its result what is to be undone: another one where that was kept when the run was reset.
    """

    __slots__ = (
        "acted",
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
        "task",
        "tries",
        "visit",
    )

    def __init__(self, kind: Kind, number: int, visit: int) -> None:
        self.kind = kind
        self.number = number
        self.visit = visit
        self.shown_by = (number, visit)
        self.task: Task | None = None
        """As it was defined when it acted, where a revision has another definition since."""
        self.rank = 0
        self.attempt = 0
        self.acted = 0
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


class Rollback:
    """One rollback: of the run, or of a plan that another one links (``owner`` is the task that links it, whose
    ``attempt`` ends as ``failure`` and ``message`` say once it is over; -1 for the run).

    ``todo`` are the positions that it has still to undo, the next one first, ``done`` those that it settled, in that
    order; ``doubts`` are tasks that fail once they are undone, with the positions that are theirs. ``left`` is what was
    left of the time of the task that links the plan: its rollback does not use it.
    """

    __slots__ = (
        "account",
        "active",
        "attempt",
        "bare",
        "began",
        "by",
        "comment",
        "current",
        "done",
        "doubts",
        "ended",
        "failure",
        "left",
        "message",
        "owner",
        "policy",
        "reason",
        "status",
        "strict",
        "todo",
    )

    def __init__(self, owner: int = -1) -> None:
        self.owner = owner
        self.attempt = 0
        self.account = 0
        """The number under which the ledger keeps what it spends."""
        self.active = False
        self.bare: tuple[str, ...] = ()
        """Tasks that acted and do not say how they are undone."""
        self.policy: RollbackPolicy | None = None
        self.reason = ""
        self.strict = False
        self.by = ""
        self.comment = ""
        self.failure = ""
        self.message = ""
        self.left: float | None = None
        self.began = 0.0
        self.ended: float | None = None
        self.todo: list[int] = []
        self.current: int | None = None
        self.doubts: dict[int, tuple[int, ...]] = {}
        self.done: dict[int, None] = {}
        self.status = ""


class CompensationLog:
    """Everything a run owes, and its rollbacks.

    ``of`` gives the positions in ``owed`` that belong to a task, ``inside`` those of what started inside a task that
    links a plan which is rolled back. ``main`` is the rollback of the whole run that goes on or was the last one;
    ``frames`` are those of linked plans that go on, by the task that links the plan; ``rollbacks`` are all there were,
    and ``under`` tells which of them was the last to take on a position. ``counts`` are attempts to undo a task so far,
    ``doing`` what is being undone of a task, and ``ranks`` the places given away.
    """

    __slots__ = (
        "counts",
        "doing",
        "frames",
        "inside",
        "main",
        "of",
        "problems",
        "ranks",
        "rollbacks",
        "steps",
        "through",
        "under",
    )

    def __init__(self) -> None:
        self.steps: list[UndoStep] = []
        self.of: dict[int, list[int]] = {}
        self.inside: dict[int, list[int]] = {}
        self.problems: dict[int, tuple[str, str, str]] = {}
        """Why the files of a task could not be saved, the class of that failure, and the rule that refused it."""
        self.ranks = 0
        self.through = 0
        """Rank up to which a rollback of the whole run has looked."""
        self.counts: dict[int, int] = {}
        self.main = Rollback()
        self.frames: dict[int, Rollback] = {}
        self.rollbacks: list[Rollback] = []
        self.under: dict[int, Rollback] = {}
        self.doing: dict[int, int] = {}

    @property
    def active(self) -> bool:
        """Whether something is being rolled back."""
        return self.main.active or bool(self.frames)

    def add(self, step: UndoStep) -> int:
        """Register something to undo; gives its position."""
        position = len(self.steps)
        self.steps.append(step)
        self.of.setdefault(step.number, []).append(position)
        self.rank(step)
        return position

    def rank(self, step: UndoStep) -> None:
        """It started last: it is the first to be undone."""
        self.ranks += 1
        step.rank = self.ranks

    def begin(self, owner: int) -> Rollback:
        """A new rollback of the run (-1) or of the plan that a task links."""
        rollback = Rollback(owner)
        rollback.active = True
        self.rollbacks.append(rollback)
        if owner < 0:
            self.main = rollback
        else:
            self.frames[owner] = rollback
        return rollback
