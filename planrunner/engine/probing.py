"""A checkable capability is asked whether an attempt took effect whose end nobody saw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.binding import Binding, probe
from planrunner.capabilities.contract import Call
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.questions import LOOK, Question
from planrunner.engine.tails import Record
from planrunner.machine.events import DoubtSettled

if TYPE_CHECKING:
    from planrunner.engine.services import AttemptServices


def probing(
    call: Call, resolve: Callable[[str], Callable[..., Any]], serve: Callable[[Call], AttemptServices]
) -> Question:
    """One that does not answer in its time knows nothing; one that was stopped is asked again when the run goes on."""

    def unanswered(failure: str, words: str) -> DoubtSettled:
        return DoubtSettled(call.task.id, call.attempt, "unknown", words, failure)

    work = partial(_probed, call, resolve, serve)
    return Question(f"`probe` of `{call.task.uses}`", call.timeout or LOOK, work, unanswered)


def _probed(
    call: Call,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> DoubtSettled | None:
    """What the capability finds out; None where it was stopped meanwhile: what it says then may be half of a look."""
    binding = located(resolve, call.task.uses)
    context = Attempt(call, Record(""), serve).context._replace(cancelled=stopped)
    took_effect = probe(binding, context) if isinstance(binding, Binding) else None
    if stopped():
        return None
    if took_effect is None:
        return DoubtSettled(call.task.id, call.attempt, "unknown", "probe could not tell")
    return DoubtSettled(call.task.id, call.attempt, "completed" if took_effect else "retry", "probe")
