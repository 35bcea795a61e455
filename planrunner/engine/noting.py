"""Capabilities that note the state before their tasks act: how long they have, and what becomes of a stop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from planrunner.errors import StorageFailed
from planrunner.machine.events import BackupMade
from planrunner.plan.expressions.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from planrunner.engine.poller import Poller
    from planrunner.engine.rare_effects import Save
    from planrunner.engine.threads import Job, Workers

LIMIT = 60.0
"""Seconds for a capability to note the state before, where its task has no timeout."""


class Noting:
    """A capability that notes the state before. It has as long as its task has for an attempt, is asked to stop as an
    attempt is, and left to itself where it does not."""

    __slots__ = ("effect", "job", "limit", "reason", "timer")

    def __init__(self, effect: Save) -> None:
        assert effect.call is not None
        self.effect = effect
        self.job: Job | None = None
        self.timer = 0
        self.reason = ""
        self.limit = effect.call.timeout or LIMIT

    def cancelled(self) -> bool:
        return self.reason != ""

    def came_to(self, found: BackupMade | StorageFailed | None) -> BackupMade | StorageFailed:
        """What follows from what it gave; None stands for one that was stopped or given up."""
        if isinstance(found, StorageFailed) or (found is not None and self.reason != "timeout"):
            return found
        effect = self.effect
        timeout = self.reason == "timeout"
        how = f"ran longer than {format_duration(self.limit)}" if timeout else "was stopped before it was done"
        left = "; it did not stop and was abandoned" if self.job is not None and self.job.abandoned else ""
        uses = "" if effect.call is None else effect.call.task.uses
        problem = f"`capture` of `{uses}` {how}{left}"
        return BackupMade(effect.task, effect.visit, (), (), problem, "timeout" if timeout else "interrupted")


class Notings:
    """Those of one run that are under way; ``done`` is told what each came to. Belongs to the loop's thread."""

    __slots__ = ("_done", "_grace", "_poller", "_under_way")

    def __init__(self, poller: Poller, grace: float, done: Callable[[Any], None]) -> None:
        self._poller = poller
        self._grace = grace
        self._done = done
        self._under_way: dict[Noting, Workers] = {}

    def start(self, noting: Noting, work: Callable[[], Any], workers: Workers) -> None:
        self._under_way[noting] = workers
        noting.job = workers.submit(work, partial(self._over, noting))
        noting.timer = self._poller.after(noting.limit, partial(self._hurry, noting, "timeout"))

    def stop(self, forced: bool) -> None:
        for noting in list(self._under_way):
            self._hurry(noting, "interrupted", forced)

    def _hurry(self, noting: Noting, reason: str, forced: bool = False) -> None:
        """Ask one to stop; one that has not after the grace is left to itself."""
        if noting.reason and not forced:
            return
        noting.reason = noting.reason or reason
        self._poller.cancel(noting.timer)
        noting.timer = self._poller.after(0.0 if forced else self._grace, partial(self._give_up, noting))

    def _give_up(self, noting: Noting) -> None:
        assert noting.job is not None
        self._under_way[noting].abandon(noting.job)
        self._over(noting, None)

    def _over(self, noting: Noting, found: Any) -> None:
        del self._under_way[noting]
        self._poller.cancel(noting.timer)
        self._done(noting.came_to(found))
