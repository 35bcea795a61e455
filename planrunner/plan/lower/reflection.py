"""``reflect``: a model looks back on a task, or on the whole run, and what it finds are suggestions.

It becomes a task of ``agent.critique`` after the one that it is about, or under ``finally``; its result changes
nothing, and neither does its failure.
"""

from __future__ import annotations

from typing import Any

from planrunner.plan.agents import CRITIQUE, REFLECTION
from planrunner.plan.expressions.parse import parse
from planrunner.plan.lower import declarations, values
from planrunner.plan.lower.agents import REQUEST_TIMEOUT, definition, literal
from planrunner.plan.lower.values import Lowering, tree_at
from planrunner.plan.model import Join, Task
from planrunner.source import NOWHERE
from planrunner.syntax.tree import Mapping, Node

Json = Any

_LONGEST = 600
"""Characters of what a task does that a model is shown for the run."""
_MOST = 300
"""Tasks of a run that it is shown."""
_OF_RUN = """\
This is the record of a run of a plan. Say what failed and why, what took longer or more attempts than it should, and
what to change in the plan. `where` is the id of a task."""


def with_reflections(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, with one after each that says `reflect`."""
    if not low.reflections:
        return tasks
    taken = {task.id for task in tasks}
    found: list[Task] = []
    for task in tasks:
        found.append(task)
        node = low.reflections.get(task.id)
        inputs = _inputs(low, node) if node is not None else None
        if inputs is not None and node is not None:
            found.append(_after(low, task, (inputs, node), taken))
    return tuple(found)


def of_run(low: Lowering, node: Node | None, tasks: tuple[Task, ...], about: str) -> tuple[Task, ...]:
    """The tasks of a plan with the one that looks back on its run, where the plan or the project says so."""
    if node is None and (low.roster is None or not low.roster.reflect):
        return tasks
    node = node if node is not None else tree_at(low.roster.reflect if low.roster is not None else None, NOWHERE)
    inputs = _inputs(low, node)
    if inputs is None or not tasks:
        return tasks
    rows = {task.id: _row(task) for task in tasks[:_MOST]}
    rubric = "\n".join(filter(None, (_OF_RUN, inputs.get("rubric", ""))))
    inputs |= {"rubric": rubric, "about": literal(about), "outputs": {"run": "{{ run.status }}", "tasks": rows}}
    last = tuple(task.id for task in tasks if task.finally_)
    made = _task(low, _free("reflection", {task.id for task in tasks}), inputs, node)
    return (
        *tasks,
        made._replace(finally_=True, needs=last, join=Join("always") if last else Join(), notes={REFLECTION: ""}),
    )


def _inputs(low: Lowering, node: Node) -> dict[str, Json] | None:
    """What the reviewer is asked with; None where it is switched off, by the plan or by the project."""
    if low.roster is not None and low.roster.reflect is False:
        return None
    if not isinstance(node, Mapping):
        return {} if values.truth(node) else None
    agent = node.get("agent")
    known = definition(low, agent) if agent is not None else {}
    inputs = {name: literal(known[name]) for name in ("model", "system") if known.get(name)}
    return inputs | {name: values.text(each) for name in ("model", "rubric") if (each := node.get(name)) is not None}


def _after(low: Lowering, task: Task, said: tuple[dict[str, Json], Node], taken: set[str]) -> Task:
    inputs, node = said
    name = _free(f"{task.id.rstrip('*').rstrip('-_') or 'family'}-reflection", taken)
    record = f"tasks['{task.id}']"
    material = {
        "about": literal(_does(task)),
        "text": "".join(f"{{{{ default({record}.{each}, '') }}}}" for each in ("message", "stdout", "stderr")),
        "outputs": {each: f"{{{{ {record}.{each} }}}}" for each in ("status", "reason", "outputs")},
    }
    made = _task(low, name, {**material, **inputs}, node)
    when = parse(f"{record}.attempts > 0")._replace(span=node.span)
    return made._replace(
        needs=(task.id,), join=Join("always"), when=when, finally_=task.finally_, notes={REFLECTION: task.id}
    )


def _task(low: Lowering, name: str, inputs: dict[str, Json], node: Node) -> Task:
    made = Task(name, uses=CRITIQUE, inputs={**inputs, "fail": False}, span=node.span)
    limits = node.get("budgets") if isinstance(node, Mapping) else None
    budgets = declarations.budgets(low, limits, low.budgets) if limits is not None else low.budgets
    return made._replace(allow_failure=True, timeout=REQUEST_TIMEOUT, budgets=budgets)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "-"
    taken.add(name)
    return name


def _does(task: Task) -> str:
    """What a task does, in its author's words."""
    if task.agent is not None:
        return f"{task.title}\n{task.agent.prompt}".strip()
    run = task.run if isinstance(task.run, str) else " ".join(task.run or ())
    return "\n".join(filter(None, (task.title, task.description, task.uses, run, task.command)))


def _row(task: Task) -> dict[str, Json]:
    record = f"tasks['{task.id}']"
    row = {each: f"{{{{ {record}.{each} }}}}" for each in ("status", "reason", "attempts")}
    return {"does": literal(_does(task)[:_LONGEST]), **row, "seconds": f"{{{{ default({record}.duration, none) }}}}"}
