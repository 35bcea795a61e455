"""What waits for people in a project: one list, in one order, for command line, page, API, digest and models.

What its runs ask comes from ``machine/questions.py``. The project itself asks too: to trust a plan whose text came from
outside, and to mend a trigger that would start nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from planrunner.app.people.admission import AdmissionRequest, admit, is_trusted
from planrunner.app.plans.path import plan_named
from planrunner.errors import Denied, NextStep, NotFound, PlanInvalid, UsageError
from planrunner.machine.questions import Question
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.project import unsound
from planrunner.safety.triggers import Trigger, read_triggers
from planrunner.safety.trust import Record, records, why_marked, why_outside

Run = TypeVar("Run")


class Refusal(Struct):
    """Why the next run of a trigger would be refused: ``steps`` are commands that show a way out, ``file`` is the plan
    that waits for a person, empty where none does."""

    why: str
    steps: tuple[NextStep, ...] = ()
    file: str = ""


def in_order(
    of_runs: Iterable[tuple[Run, Question]], of_project: Iterable[Question]
) -> list[tuple[Run | None, Question]]:
    """What waits for people, in the order in which it is shown: tasks in doubt, what else runs ask, the newest first,
    plans to trust, triggers that would start nothing."""
    return [*sorted(of_runs, key=lambda each: each[1].kind != "doubt"), *((None, question) for question in of_project)]


def project_questions(root: str) -> list[Question]:
    """What a project itself asks: plans to trust, then triggers. A plan is loaded only where a file of the project has
    a mark."""
    root = os.path.realpath(root)
    marked = _marked(root)
    triggers, waiting = _of_triggers(root, marked)
    return [*(_trust(record, root) for record in marked if _waits(record.path, waiting)), *triggers]


def _marked(root: str) -> list[Record]:
    """The marks of plan files of a project."""
    below = os.path.join(root, "")
    return [record for record in records("draft") if record.path.startswith(below)]


def _waits(path: str, waiting: set[str]) -> bool:
    """Whether a marked file waits for a person, and no trigger says so."""
    return path not in waiting and os.path.isfile(path) and bool(why_marked(path)) and not is_trusted(path)


def _trust(record: Record, root: str) -> Question:
    plan = os.path.relpath(record.path, root)
    ask = f"`{plan}` runs only once a person trusts it: {why_marked(record.path)}"
    return Question("trust", plan, ask, since=record.at, plan=plan, steps=(NextStep("trust", plan),))


def _of_triggers(root: str, marked: list[Record]) -> tuple[list[Question], set[str]]:
    """The triggers that would start nothing, in the order of the settings, and the plan files that they wait for."""
    try:
        triggers = read_triggers(root).values()
    except (PlanInvalid, UsageError) as error:
        why = unsound(error) if isinstance(error, PlanInvalid) else error.message
        ask = f"no trigger starts anything: {why}".replace(f"{root}/", "")
        return [Question("trigger", "triggers", ask, steps=(NextStep("trigger list"),))], set()
    found = [(trigger, refusal) for trigger in triggers if (refusal := _refusal(trigger, root, marked)).why]
    asked = [
        Question(
            *("trigger", trigger.name, f"trigger `{trigger.name}` would start nothing: {refusal.why}"),
            plan=trigger.plan,
            steps=refusal.steps,
        )
        for trigger, refusal in found
    ]
    return asked, {refusal.file for _, refusal in found}


def why_refused(trigger: Trigger, root: str) -> str:
    """Why the next run of a trigger would be refused; empty where it would start."""
    return _refusal(trigger, root, _marked(os.path.realpath(root))).why


def _refusal(trigger: Trigger, root: str, marked: list[Record]) -> Refusal:
    """Why the next run of a trigger would be refused; ``why`` is empty where it would start. What is wrong with the
    text of a plan is for lint."""
    plan = plan_named(trigger.plan, root)
    path = os.path.join(root, plan)
    if not os.path.isfile(path):
        return Refusal(f"there is no plan `{trigger.plan}`", (NextStep("trigger list"),))
    if not (why_outside(path, root) or marked):
        return Refusal("")
    try:
        admit(AdmissionRequest(path, trigger.params), Registry(project=root))
    except Denied as error:
        return _denied(error, root)
    except (NotFound, PlanInvalid):
        return Refusal("")
    return Refusal("")


def _denied(error: Denied, root: str) -> Refusal:
    """A refusal with places as they are named in the project."""
    files = [step.arguments[0] for step in error.way_out.steps if step.command == "trust"]
    shown = tuple(NextStep("trust", file.removeprefix(f"{root}/")) for file in files)
    why = error.message if shown or not error.hint else f"{error.message} ({error.hint})"
    return Refusal(why.replace(f"{root}/", ""), shown, os.path.realpath(files[0]) if files else "")
