"""Effects that call no capability: looks at the world, files saved, kept and put back, and what is known of tasks that
are done already."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from planrunner.capabilities.contract import Call
from planrunner.engine import freshness
from planrunner.engine.backups import saved_or_restored
from planrunner.engine.capturing import capturing
from planrunner.engine.checkpoints import taken
from planrunner.engine.effects import (
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
from planrunner.engine.evidence import looking
from planrunner.engine.facts import observe
from planrunner.engine.judging import judged
from planrunner.engine.probing import probing
from planrunner.engine.questions import Question
from planrunner.engine.services import AttemptServices
from planrunner.machine.events import AttemptEnded, BackupMade, FactsObserved, FreshnessSeen
from planrunner.redaction import Redactor

Aside = Observe | Look | Remember | Forget | Save | Restore


def act(
    state_dir: str, effect: Aside, redactor: Redactor | None = None
) -> list[AttemptEnded | BackupMade | FactsObserved | FreshnessSeen]:
    """Do what the effect asks for; the events that follow. No copy is kept of what holds a secret that ``redactor``
    knows. Raises StorageFailed when a copy cannot be kept."""
    if isinstance(effect, Observe):
        return [FactsObserved(effect.task, observe(effect.names, state_dir))]
    if isinstance(effect, (Save, Restore)):
        return [saved_or_restored(state_dir, effect, redactor)]
    if isinstance(effect, Look):
        return [freshness.look(state_dir, effect)]
    if isinstance(effect, Remember):
        freshness.remember(state_dir, effect)
    else:
        freshness.forget(state_dir, effect)
    return []


def asking(
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    effect: Save | Probe | Examine,
) -> Question:
    """What a capability is asked for an effect that has a call of its own."""
    if isinstance(effect, Save):
        return capturing(effect, resolve, serve)
    if isinstance(effect, Probe):
        return probing(effect.call, resolve, serve)
    return judged(effect, resolve, serve)


def beside(
    state_dir: str, effect: Examine | Weigh | TakeCheckpoint, redactor: Redactor | None = None
) -> tuple[Callable[[], Any], list[Any] | None]:
    """What takes long and is done in a thread, and where its result goes; None: it is an event."""
    if isinstance(effect, TakeCheckpoint):
        return partial(taken, state_dir, effect, redactor), None
    return looking(effect)
