"""What a circuit breaker has seen so far."""

from __future__ import annotations


class Circuit:
    """What a breaker has seen: failures in a row, since when it is open (None: it lets through), and the task whose
    attempt was let through to try."""

    __slots__ = ("failures", "since", "trial", "waiting")

    def __init__(self) -> None:
        self.failures = 0
        self.since: float | None = None
        self.trial = -1
        self.waiting: dict[int, None] = {}
