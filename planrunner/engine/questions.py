"""What capabilities are asked beside their attempts: what the state before is, whether an attempt took effect, whether
words hold. Each question has a timeout, and a capability that does not answer in time is abandoned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.faults import left_behind, overdue
from planrunner.errors import StorageFailed
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.engine.effects import Examine, Probe, Save
    from planrunner.engine.poller import Job, Poller, Turns, Workers


LOOK = 30.0
"""Seconds to look at something (``probe``, ``preview``), where the task has no timeout."""

WORK = 600.0
"""Seconds for what may move contents or think (``capture``, ``undo``, a judge), where the task has no timeout."""


class Question(Struct):
    """``work`` is called in a thread with a function that tells whether to stop, and gives the event that answers, or
    None where it was stopped. ``unanswered`` gives the event in its place, if there is to be one, from a failure class
    (timeout or interrupted) and words. ``asked`` says who is asked what, ``limit`` how many seconds that may take."""

    asked: str
    limit: float
    work: Callable[[Callable[[], bool]], Any]
    unanswered: Callable[[str, str], Any]


class _Asked:
    """A question that is under way."""

    __slots__ = ("job", "question", "reason", "timer", "workers")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.job: Job | None = None
        self.workers: Workers | None = None
        self.timer = 0
        self.reason = ""

    def stopped(self) -> bool:
        return self.reason != ""

    def came_to(self, answer: Any) -> Any:
        """What follows from what it gave; None stands for one that was stopped or given up."""
        if isinstance(answer, StorageFailed) or (answer is not None and self.reason != "timeout"):
            return answer
        question, abandoned = self.question, self.job is not None and self.job.abandoned
        if self.reason == "timeout":
            return question.unanswered("timeout", overdue(question.asked, question.limit, abandoned))
        words = f"{question.asked} was stopped before it was done{left_behind(abandoned)}"
        return question.unanswered("interrupted", words)


class Questions:
    """Those of one run that are under way: ``asking`` gives that of an effect, ``done`` is told what each came to.
    Belongs to the loop's thread."""

    def __init__(
        self, poller: Poller, turns: Turns, grace: float, asking: Callable[[Any], Question], done: Callable[[Any], None]
    ) -> None:
        self._asking = asking
        self._poller = poller
        self._turns = turns
        self._grace = grace
        self._done = done
        self._open: dict[_Asked, None] = {}

    def ask(self, effect: Probe | Save | Examine, workers: Callable[[], Workers]) -> None:
        """Ask in one of the threads that ``workers`` gives, when its turn comes; the timeout counts from then."""
        asked = _Asked(self._asking(effect))
        self._open[asked] = None
        self._turns.take(partial(self._begin, asked, workers))

    def _begin(self, asked: _Asked, workers: Callable[[], Workers]) -> bool:
        if asked not in self._open:
            return False  # stopped before its turn came
        question = asked.question
        asked.workers = workers()
        asked.job = asked.workers.submit(partial(question.work, asked.stopped), partial(self._over, asked))
        asked.timer = self._poller.after(question.limit, partial(self._hurry, asked, "timeout"))
        return True

    def stop(self, forced: bool) -> None:
        for asked in list(self._open):
            self._hurry(asked, "interrupted", forced)

    def _hurry(self, asked: _Asked, reason: str, forced: bool = False) -> None:
        """Ask one to stop; one that has not after the grace is left to itself."""
        if asked.reason and not forced:
            return
        asked.reason = asked.reason or reason
        if asked.job is None:
            self._over(asked, None)
            return
        self._poller.cancel(asked.timer)
        asked.timer = self._poller.after(0.0 if forced else self._grace, partial(self._give_up, asked))

    def _give_up(self, asked: _Asked) -> None:
        assert asked.job is not None and asked.workers is not None
        asked.workers.abandon(asked.job)
        self._over(asked, None)

    def _over(self, asked: _Asked, answer: Any) -> None:
        del self._open[asked]
        self._poller.cancel(asked.timer)
        if asked.job is not None:
            self._turns.over()
        self._done(asked.came_to(answer))
