"""What a capability notes of the world before it acts, so that it can undo exactly what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.capabilities.binding import Binding, invoke, not_json
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.tails import Record
from planrunner.errors import StorageFailed
from planrunner.machine.events import BackupMade, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from planrunner.capabilities.contract import Call
    from planrunner.engine.rare_effects import Save
    from planrunner.engine.services import AttemptServices


def captured(
    effect: Save,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> BackupMade | StorageFailed | None:
    """Call the capability's ``capture``; None where the run was stopped meanwhile: it is asked when the run goes on."""
    call = effect.call
    assert call is not None
    binding = located(resolve, f"{call.task.uses}#capture")
    if isinstance(binding, Binding):
        context = Attempt(call, Record(""), serve).context._replace(cancelled=stopped)
        found = invoke(binding, call.inputs, context)
    else:
        found = binding
    if isinstance(found, StorageFailed):
        return found
    if not isinstance(found, Outcome):
        return BackupMade(effect.task, effect.visit, (), (), "its capability noted nothing")
    if found.failure:
        return None if stopped() else BackupMade(effect.task, effect.visit, (), (), found.message)
    if why := not_json(found.outputs, "what its capability noted"):
        return BackupMade(effect.task, effect.visit, (), (), why)
    return BackupMade(effect.task, effect.visit, (), ({"before": found.outputs},))
