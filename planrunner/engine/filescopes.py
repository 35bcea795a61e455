"""The file scopes of a policy, for what the engine reads of a project on behalf of a task."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.readable import require_within
from planrunner.engine.declared import files_of
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planrunner.capabilities.contract import Call
    from planrunner.machine.events import Outcome


def held(call: Call, outcome: Outcome, top: str) -> Outcome:
    """The outcome, refused where one of the files that the task gives or keeps may not be read by its policy. Its paths
    are judged from ``top``, the directory of the run."""
    if outcome.failure:
        return outcome
    try:
        for path in _taken(call):
            require_within(call.rights, (top, os.path.join(call.directory, path)))
    except Failure as failure:
        return outcome._replace(failure=failure.failure, message=str(failure), outputs={}, rule=failure.rule)
    return outcome


def _taken(call: Call) -> Iterator[str]:
    yield from (output.path for output in call.task.outputs if output.path)
    for artifact in call.task.artifacts:
        if artifact.path:
            yield from (path for _, path in files_of(artifact, call.directory))
