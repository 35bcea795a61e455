"""The outside world in three verbs. Live, imagined and scripted effects differ; the loop that uses them does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planrunner.capabilities.contract import Call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol, Union

    from planrunner.engine.rare_effects import (
        Cancel,
        Examine,
        Forget,
        Look,
        Observe,
        Probe,
        Remember,
        Restore,
        Save,
        TakeCheckpoint,
        Weigh,
    )
    from planrunner.machine.events import Event

    Json = Any


UNDO = "undo:"
"""What the calls that undo a task have before its id; no id of a task holds a colon."""

AT_ONCE = "at once"
"""Comment of a StopRequested for which nothing may be waited for: the second Ctrl-C."""


class StartCall(NamedTuple):
    """Run one attempt whose intent is durable."""

    call: Call


if TYPE_CHECKING:
    Effect = Union[
        StartCall, Observe, Probe, Cancel, Examine, Weigh, Look, Remember, Forget, Save, Restore, TakeCheckpoint
    ]

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
