"""A watch of a run that shows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.app.execute import RunResult
    from planrunner.machine.events import Entry
    from planrunner.plan.model import Plan


class Silent:
    """For runs that a test looks at afterwards."""

    def started(self, run_id: str, plan: Plan, state: object) -> None:
        """The run exists."""

    def event(self, entry: Entry) -> None:
        """An entry is durable."""

    def output(self, task: str, attempt: int, stream: str, data: bytes) -> None:
        """An attempt printed something."""

    def tick(self, now: float) -> None:
        """Time passes."""

    def ended(self, result: RunResult) -> None:
        """The run ended or parked."""
