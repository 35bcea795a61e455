"""Triggers that would start nothing: their plan is not there, or is not trusted."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.app.people.admission import AdmissionRequest, admit
from planrunner.app.plans.path import plan_named
from planrunner.errors import Denied, NotFound, PlanInvalid
from planrunner.plugins.registry import Registry
from planrunner.safety.triggers import Trigger, read_triggers
from planrunner.safety.trust import records, why_outside


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
    """Why the next run of a trigger would be refused; empty where it would start. A plan is loaded, with what it links
    to, only where a file of the project has a mark; what is wrong with the text of a plan is for lint."""
    path = os.path.join(root, plan_named(trigger.plan, root))
    if not os.path.isfile(path):
        return f"there is no plan `{trigger.plan}`"
    below = os.path.join(os.path.realpath(root), "")
    if not (why_outside(path, root) or any(record.path.startswith(below) for record in records("draft"))):
        return ""
    try:
        admit(AdmissionRequest(path, trigger.params), Registry(project=root))
    except Denied as error:
        return error.message.replace(f"{root}/", "")
    except (NotFound, PlanInvalid):
        return ""
    return ""
