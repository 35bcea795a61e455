"""The agents of a plan before it runs: the model of each, its tools with what they may do, what it is given, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planrunner.app.plans.preview import Previewed
from planrunner.app.proof.envelope import KnownPlan, effect_of, is_irreversible
from planrunner.app.proof.names import walk
from planrunner.capabilities.agent.context import assembled, of_files
from planrunner.capabilities.agent.hooks import name_of
from planrunner.capabilities.agent.material import Ground
from planrunner.capabilities.llm.models import first_of
from planrunner.escapes import masked_data
from planrunner.failures import Failure
from planrunner.journal.workspace import find_project
from planrunner.plan.agents import ASKING
from planrunner.plan.contexts import Profile
from planrunner.plan.model import Task
from planrunner.plan.tasks import tools_of
from planrunner.safety.project import levels, policy_records, read_data

Json = Any


def agents_of(path: str, previewed: Previewed) -> list[dict[str, Json]]:
    """A record for each task of a plan file that an agent carries out, with files as they are now. Nothing of it binds
    a run."""
    project = find_project(path)
    models = read_data(project).get("models") or {}
    ground = Ground(project, project, levels(policy_records(project)))
    known = KnownPlan(previewed.plan, previewed.params, previewed.traits, previewed.env)
    rows = []
    for path, task in walk(previewed.plan.tasks):
        asking = _asking(task)
        if asking is None or task.agent is None or task.loop is None:
            continue
        inputs = asking.inputs or {}
        row = {
            "task": path,
            "agent": task.agent.name,
            "model": _model(models, inputs.get("model", "")),
            "session": task.agent.session,
            "rounds": task.loop.max,
            "tries": task.agent.tries,
            "effort": inputs.get("effort") or "",
            "hooks": [f"{each['does']} {name_of(each)}" for each in inputs.get("hooks", ())],
            "budgets": {name: value for name, value in task.budgets._asdict().items() if value},
            "tools": [_tool(known, each) for each in _tools(task)],
            "context": _context(inputs.get("profile"), ground),
        }
        rows.append(masked_data(row))
    return rows


def _asking(task: Task) -> Task | None:
    """The task within an agent's that asks its model."""
    rounds = task.loop.tasks if task.agent is not None and task.loop is not None else ()
    return next((each for each in rounds if each.uses == ASKING), None)


def _model(models: Mapping[str, Json], name: str) -> str:
    """The name of the model, of the default one where none is said; empty where the project has none."""
    try:
        return first_of(models, name).name
    except Failure:
        return name


def _tools(task: Task) -> Iterator[Task]:
    for each in task.loop.tasks if task.loop is not None else ():
        yield from tools_of(each)


def _tool(known: KnownPlan, tool: Task) -> dict[str, Json]:
    """A tool and what it may do: an effect class, or words."""
    record = {"name": tool.id, "calls": tool.uses or tool.subplan_file, "may": "", "irreversible": False}
    if tool.gate is not None:
        return {**record, "may": "asks a person"}
    if tool.sub is not None:
        what = f"runs the plan {tool.subplan_file}" if tool.subplan_file else f"asks the agent {tool.sub.id}"
        return {**record, "may": what}
    return {**record, "may": effect_of(known, tool), "irreversible": is_irreversible(known, tool)}


def _context(profile: Json, ground: Ground) -> dict[str, Json] | None:
    """The profile with the files that there are now, as far as its tokens reach for them alone."""
    if not profile:
        return None
    given = Profile(**profile)
    pieces = [piece for part in given.include for piece in of_files(ground, given, part)]
    parts = assembled(pieces, given.tokens).parts
    return {"include": list(given.include), "tokens": given.tokens, "parts": [each._asdict() for each in parts]}
