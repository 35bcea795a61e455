"""What a capability notes of the world before it acts, so that it can undo exactly what it did."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.binding import Binding, Result, invoke
from planrunner.capabilities.contract import Call
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.effects import Save
from planrunner.engine.questions import WORK, Question
from planrunner.engine.tails import Record
from planrunner.errors import StorageFailed
from planrunner.machine.events import BackupMade, Outcome
from planrunner.machine.retry import again, delay

if TYPE_CHECKING:
    from planrunner.engine.services import AttemptServices


def capturing(
    effect: Save, resolve: Callable[[str], Callable[..., Any]], serve: Callable[[Call], AttemptServices]
) -> Question:
    """The capability is asked for the state before; a task does not begin where it does not tell."""
    call = effect.call
    assert call is not None

    def unanswered(failure: str, words: str) -> BackupMade:
        return BackupMade(effect.task, effect.visit, (), (), words, failure)

    work = partial(_captured, effect, call, resolve, serve)
    return Question(f"`capture` of `{call.task.uses}`", call.timeout or WORK, work, unanswered)


def _captured(
    effect: Save,
    call: Call,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> BackupMade | StorageFailed | None:
    """Call the capability's ``capture``; None where the run was stopped meanwhile: it is asked when the run goes on."""
    binding = located(resolve, f"{call.task.uses}#capture")
    found: Result = binding if isinstance(binding, Outcome) else _noted(binding, call, serve, stopped)
    if isinstance(found, StorageFailed):
        return found
    answer = BackupMade(effect.task, effect.visit, ())
    if not isinstance(found, Outcome):
        return answer._replace(problem="its capability noted nothing")
    if found.failure:
        return None if stopped() else answer._replace(problem=found.message, failure=found.failure, rule=found.rule)
    return answer._replace(files=({"before": found.outputs},))


def _noted(
    binding: Binding, call: Call, serve: Callable[[Call], AttemptServices], stopped: Callable[[], bool]
) -> Result:
    """What the capability notes; a failure that may pass is tried again as the task would be."""
    context = Attempt(call, Record(""), serve).context._replace(cancelled=stopped)
    for tries in count(1):
        found = invoke(binding, call.inputs, context, "what its capability noted", halves=True)
        failure = found.failure if isinstance(found, Outcome) else ""
        if not failure or stopped() or not again(call.task.retry, tries, failure):
            return found
        due = time.monotonic() + delay(call.task.retry, tries, f"{call.key}:{tries}")
        while time.monotonic() < due and not stopped():
            time.sleep(0.05)
    raise AssertionError("the count has no end")
