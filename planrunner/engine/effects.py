"""The outside world in three verbs. Live, imagined and scripted effects differ; the loop that uses them does not."""

from __future__ import annotations

from planrunner.capabilities.contract import Call
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol, Union

    from planrunner.machine.events import Event

    Json = Any


AT_ONCE = "at once"
"""Comment of a StopRequested for which nothing may be waited for: the second Ctrl-C."""


class StartCall(NamedTuple):
    """Run one attempt whose intent is durable."""

    call: Call


class Observe(NamedTuple):
    """Look at facts of the world for the preconditions of a task."""

    task: str
    names: tuple[str, ...]


class Probe(NamedTuple):
    """Ask a checkable capability whether an attempt of unknown end took effect."""

    call: Call


class Cancel(NamedTuple):
    """Stop one attempt for good; its outcome is of the class ``failure``, with ``reason`` in its message."""

    task: str
    attempt: int
    reason: str
    failure: str = "cancelled"

    @property
    def message(self) -> str:
        return f"stopped: {self.reason}" if self.failure == "cancelled" else self.reason


class Examine(NamedTuple):
    """Look at the evidence of the gate of a task, below ``directory``."""

    task: str
    visit: int
    looks: tuple[dict[str, Json], ...]
    directory: str


if TYPE_CHECKING:
    Effect = Union[StartCall, Observe, Probe, Cancel, Examine]

    class Effects(Protocol):
        """``start`` returns at once; ``wait`` blocks until something happened or ``until`` (seconds since 1970)
        passed and gives the events that arose: AttemptEnded, FactsObserved, GateExamined, DoubtSettled,
        StopRequested."""

        def start(self, effects: Sequence[Effect]) -> None: ...

        def wait(self, until: float | None) -> list[Event]: ...

        def now(self) -> float: ...

        def stop(self, forced: bool = False) -> None:
            """End every running attempt in order (TERM, then KILL), or at once when ``forced``; their outcomes come
            from ``wait`` as ``interrupted``."""
            ...

        def close(self) -> None: ...
