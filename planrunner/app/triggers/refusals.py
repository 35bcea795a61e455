"""Triggers that would start nothing: their plan is not there, or is not trusted."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.app.people.admission import AdmissionRequest, admit
from planrunner.errors import Denied, NotFound, PlanInvalid
from planrunner.plugins.registry import Registry
from planrunner.safety.triggers import Trigger, read_triggers
from planrunner.safety.trust import why_drafted, why_outside


class Refusal(NamedTuple):
    """A trigger whose next run would be refused: its name, its plan below the project, and why."""

    trigger: str
    plan: str
    why: str


def refusals(root: str) -> list[Refusal]:
    """The triggers of a project that would start nothing, in the order of its settings. Raises as ``read_triggers``."""
    found = [(trigger, why_refused(trigger, root)) for trigger in read_triggers(root).values()]
    return [Refusal(trigger.name, trigger.plan, why) for trigger, why in found if why]


def why_refused(trigger: Trigger, root: str) -> str:
    """Why the next run of a trigger would be refused; empty where it would start. Only a plan with a mark is loaded;
    what is wrong with the text of a plan is for lint."""
    path = os.path.join(root, trigger.plan)
    if not os.path.isfile(path):
        return f"there is no plan `{trigger.plan}`"
    if not (why_drafted(path) or why_outside(path, root)):
        return ""
    try:
        admit(AdmissionRequest(path, trigger.params), Registry(project=root))
    except Denied as error:
        return error.message.replace(f"{root}/", "")
    except (NotFound, PlanInvalid):
        return ""
    return ""
