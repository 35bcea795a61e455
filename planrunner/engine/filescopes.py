"""The file scopes of a policy, for what the engine reads of a project on behalf of a task."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Call, Failure
from planrunner.capabilities.files.readable import require_within
from planrunner.engine.declared import fitting
from planrunner.machine.events import Outcome
from planrunner.plan.access import taken


def held(call: Call, outcome: Outcome, top: str) -> Outcome:
    """The outcome, refused where one of the files that the task gives or keeps may not be read by its policy. Its paths
    are judged from ``top``, the directory of the run."""
    if outcome.failure:
        return outcome
    try:
        for touch in taken(call.task):
            for path in fitting(touch.text, call.directory):
                require_within(call.rights, (top, os.path.join(call.directory, path)))
    except Failure as failure:
        return outcome._replace(failure=failure.failure, message=str(failure), outputs={}, rule=failure.rule)
    return outcome
