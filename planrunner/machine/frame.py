"""A level of tasks that see each other: the plan itself, a subplan, one round of a loop, the items of a fan-out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from planrunner.machine.undoing import Rollback
    from planrunner.plan.model import Plan

Json = Any
Kind = Literal["plan", "subplan", "round", "items"]


class Frame:
    """The tasks numbered ``first`` to ``first + size - 1``.

    ``owner`` is the task that holds them, -1 for the plan. ``open`` counts those of the main part that are not settled,
    ``finals_open`` those under ``finally``; ``failures`` are the tasks that stand as failed, in the order in which they
    did, and ``tolerate`` of them are allowed. ``values`` are the items of a fan-out (a list), what a loop carries or
    the parameters of a linked subplan (mappings). Of the items only those before ``limit`` may begin.
    """

    __slots__ = (
        "alike",
        "before",
        "closing",
        "earlier",
        "ended",
        "failures",
        "finals",
        "finals_open",
        "first",
        "index",
        "kind",
        "last",
        "limit",
        "linked",
        "on_failure",
        "open",
        "owner",
        "renewed",
        "round",
        "same",
        "sign",
        "size",
        "tolerate",
        "undoing",
        "values",
        "why",
    )

    def __init__(self, kind: Kind, owner: int, first: int, size: int) -> None:
        self.kind = kind
        self.owner = owner
        self.first = first
        self.size = size
        self.index: dict[str, int] = {}
        self.on_failure = "stop"
        self.finals: list[int] = []
        self.finals_open = 0
        self.last = -1
        """The task that stands for the ``done`` of its plan, -1 for none."""
        self.open = size
        self.failures: list[int] = []
        self.ended = -1
        """The task that has ended the plan of this level; -1: none."""
        self.tolerate = 0
        self.closing = ""
        """Why nothing of it starts any more: ``timeout``, ``cancelled`` or ``budget``; empty while it goes on."""
        self.why = ""
        """The sentence for that, where there is one."""
        self.values: Json = None
        self.round = 0
        self.same = self.alike = 0
        """Rounds in a row before this one that changed nothing that is carried, and that failed alike."""
        self.sign: tuple[tuple[str, str, str], ...] = ()
        """How the round before failed."""
        self.limit = 0
        """Number after the last item that may begin; 0 where none waits for another."""
        self.earlier: Frame | None = None
        """The round before this one."""
        self.before: Frame | None = None
        """What its tasks are compared with, where the task that holds it began anew and may keep what it gave."""
        self.renewed: set[int] = set()
        """Tasks of it that somebody runs again by name: nothing is kept of them."""
        self.linked: Plan | None = None
        """The plan of a subplan from a file, whose tasks see nothing of what is around them."""
        self.undoing: Rollback | None = None
        """The rollback of that plan, once there is one."""

    @property
    def failing(self) -> bool:
        """Whether nothing but handlers and ``finally`` starts in it."""
        return len(self.failures) > self.tolerate and self.on_failure != "continue"
