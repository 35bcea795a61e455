"""A question to people: what is asked and shown, who may decide, and what they have said so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planrunner.machine.events import GateVoted

Json = Any


class GateState:
    """The gate of a task in one of its visits. ``stage`` and ``request`` are as in GateRequested; ``evidence`` and
    ``policy`` are known once it was ``examined``, ``cut`` says that its judge was interrupted; it waits for people
    while it is ``opened`` and has no ``decision``."""

    __slots__ = (
        "attempt",
        "by",
        "cut",
        "decision",
        "escalated",
        "evidence",
        "examined",
        "expires_at",
        "need",
        "not_starter",
        "opened",
        "opened_at",
        "people",
        "policy",
        "reason",
        "request",
        "roles",
        "shown",
        "stage",
        "visit",
        "votes",
    )

    def __init__(self, visit: int, stage: str, attempt: int, request: dict[str, Json]) -> None:
        self.visit = visit
        self.stage = stage
        self.attempt = attempt
        self.request = request
        self.examined = self.opened = self.escalated = self.cut = False
        self.evidence: tuple[dict[str, Json], ...] = ()
        self.policy = self.shown = ""
        self.votes: list[GateVoted] = []
        self.roles: tuple[str, ...] = ()
        self.people: tuple[str, ...] = ()
        self.need = 1
        self.not_starter = False
        self.opened_at = 0.0
        self.expires_at: float | None = None
        self.decision = self.reason = ""
        self.by: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is for people to decide now."""
        return self.opened and not self.decision and not self.verdict

    @property
    def verdict(self) -> str:
        """What the votes come to: ``rejected`` by one of them, ``approved`` by as many as it needs for the same choice,
        empty where more are wanted."""
        for vote in self.votes:
            if vote.verdict == "reject":
                return "rejected"
            if len(self.agreeing(vote.choice)) >= self.need:
                return "approved"
        return ""

    def agreeing(self, choice: str) -> list[str]:
        """Who approved with that choice, in the order in which they did."""
        return [vote.by for vote in self.votes if vote.verdict == "approve" and vote.choice == choice]

    @property
    def is_behind(self) -> bool:
        """Decided well, with the work of the task still ahead of it."""
        return self.decision in ("passed", "approved") and self.stage not in ("gate", "criteria", "instruction")
