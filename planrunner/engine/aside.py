"""Effects that call no capability: looks at the world, files saved, kept and put back, and what is known of tasks that
are done already."""

from __future__ import annotations

from planrunner.engine.rare_effects import Forget, Look, Observe, Remember, Restore, Save, TakeCheckpoint
from planrunner.lean import partial
from planrunner.machine.events import FactsObserved
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from planrunner.capabilities.contract import Call
    from planrunner.engine.rare_effects import Examine, Weigh
    from planrunner.engine.services import AttemptServices
    from planrunner.machine.events import AttemptEnded, BackupMade, FreshnessSeen

    Aside = Observe | Look | Remember | Forget | Save | Restore


def act(state_dir: str, effect: Aside) -> list[AttemptEnded | BackupMade | FactsObserved | FreshnessSeen]:
    """Do what the effect asks for; the events that follow. Raises StorageFailed when a copy cannot be kept."""
    if isinstance(effect, Observe):
        from planrunner.engine.facts import observe  # late: few plans have preconditions about the world

        return [FactsObserved(effect.task, observe(effect.names, state_dir))]
    if isinstance(effect, (Save, Restore)):
        from planrunner.engine.backups import saved_or_restored  # late: few tasks name files to save

        return [saved_or_restored(state_dir, effect)]
    from planrunner.engine import freshness  # late: few tasks tell when they are done already

    if isinstance(effect, Look):
        return [freshness.look(state_dir, effect)]
    if isinstance(effect, Remember):
        freshness.remember(state_dir, effect)
    else:
        freshness.forget(state_dir, effect)
    return []


def calling(
    effect: Examine,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> Callable[[], Any]:
    """What a thread does for an effect with a call of its own: have a model judge."""
    from planrunner.engine.judging import judged  # late: few criteria are judged by a model

    return partial(judged, effect, resolve, serve, stopped)


def beside(state_dir: str, effect: Examine | Weigh | TakeCheckpoint) -> tuple[Callable[[], Any], list[Any] | None]:
    """What takes long and is done in a thread, and where its result goes; None: it is an event."""
    if isinstance(effect, TakeCheckpoint):
        from planrunner.engine.checkpoints import taken  # late: few tasks ask for a checkpoint

        return partial(taken, state_dir, effect), None
    from planrunner.engine.evidence import looking  # late: few plans have gates

    return looking(effect)
