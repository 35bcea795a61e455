"""The canonical tree to a ``Plan``, with everything typed, defaults merged and edges collected.

Whatever is well formed is lowered, whatever is not is left out: the schema check has reported it, and the findings
about the graph appear beside it all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Table
from typing import Any

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.agents import Roster
from planrunner.plan.files import Links
from planrunner.plan.keys import PLAN
from planrunner.plan.lower import agents, declarations, hypotheses, reflection, values
from planrunner.plan.lower.task import complete, defaults_of, lower_task, report_idle_inputs, report_twins, task_id
from planrunner.plan.lower.values import RUN, Lowering, criteria
from planrunner.plan.model import Budgets, Capability, Criterion, Plan, Task
from planrunner.plan.nearest import meant, nearest
from planrunner.records import Struct
from planrunner.source import NOWHERE, Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence


class Lowered(Struct):
    """The plan as far as it could be made out, the findings, and the ``subplans`` in its text
    (each also in the tasks that link to it)."""

    plan: Plan
    findings: tuple[Diagnostic, ...]
    subplans: tuple[Plan, ...] = ()
    worded: frozenset[Span] = frozenset()
    """Places of numbers that are declared to be text."""


def lower(
    tree: Mapping,
    links: Links | None = None,
    capabilities: Table[str, Capability] | None = None,
    roster: Roster | None = None,
) -> Lowered:
    """Lower a tree that ``canonical`` has rewritten; without ``links`` no file is opened for a ``subplan``, without
    ``capabilities`` commands stay words, without ``roster`` agents have no more than their names."""
    links = links or Links()
    findings: list[Diagnostic] = []
    start = Lowering(findings, links=links)
    start.capabilities, start.roster = capabilities, roster
    start.roster = agents.declared(start, tree.get("agents"))
    links.declare(tree.get("subplans"), lambda name, node: _plan(node, start, name))
    plan, subplans = _plan(tree, start, ""), links.make_all()
    agents.report_idle(start, tree.get("agents"))
    return Lowered(plan, tuple(findings), subplans, frozenset(start.worded))


def _plan(tree: Mapping, start: Lowering, given: str) -> Plan:
    """The plan of a mapping; ``given`` is the name of one under ``subplans``."""
    nodes = {str(key.value): value for key, value in tree.entries}
    items = [_items(nodes.get(key)) for key in ("tasks", "finally")]
    items[0] = [*_services(start, nodes.get("services")), *items[0]]
    ids = frozenset([found for group in items for item in group if (found := task_id(item))])
    low = start.scope(ids, hypotheses.NAMES if "hypotheses" in nodes else frozenset())
    fields: dict[str, Any] = {}
    for name, read in _READ:
        if name in nodes:
            fields[name] = read(low, nodes[name])
    notes = {name: values.data(nodes[name]) for name in _NOTED if name in nodes}
    low.params = fields.get("params", ())
    if "outputs" in nodes:
        declarations.check_types(low, nodes["outputs"])
    if "policy" in nodes:
        fields["gated"] = declarations.gated(low, nodes["policy"])
    if fields.get("deadline") is not None:
        del notes["deadline"]
    elif "deadline" in nodes:
        fields["due"] = declarations.due(nodes["deadline"])
    tasks = _tasks(low, nodes, *items)
    report_twins(low, tasks)
    if (done := tree.key("done")) is not None:
        tasks = with_done(low, done, nodes["done"], tasks)
    if "reflect" in nodes or not given:
        about = "\n".join(filter(None, (fields.get("title", ""), fields.get("description", ""))))
        tasks = reflection.of_run(low, nodes.get("reflect"), tasks, about or given)
    key = nodes.get("plan")
    span = key.span if key is not None else tree.span
    return Plan(values.text(key) if key is not None else given, **fields, tasks=tasks, notes=notes or None, span=span)


def _tasks(low: Lowering, nodes: dict[str, Node], first: list[Mapping], last: list[Mapping]) -> tuple[Task, ...]:
    """Tasks in the order of the text, those under ``finally`` last, each with what the plan's ``gates`` say of it.

    A task without an id is read for its findings only: nothing could refer to it.
    """
    defaults = defaults_of(low, nodes.get("defaults"))
    low.budgets = defaults.get("budgets", Budgets())
    gates = _gates(low, nodes.get("gates"))
    found: list[Task] = []
    for items, fields in ((first, defaults), (last, defaults | {"finally_": True})):
        found += [lower_task(low, item, fields, gates.get(task_id(item), ()) if gates else ()) for item in items]
    tasks = complete(low, tuple([task for task in found if task.id]))
    if low.inputs:
        report_idle_inputs(low, nodes.get("defaults"))
    return tasks


def _gates(low: Lowering, node: Node | None) -> dict[str, tuple[Mapping, ...]]:
    result: dict[str, tuple[Mapping, ...]] = {}
    for item in _items(node):
        name = task_id(item)
        if name in low.ids:
            result[name] = (*result.get(name, ()), item)
        elif name:
            near = nearest(name, sorted(low.ids))
            message = f"the gate `{name}` belongs to no task" + meant(near)
            place = item.get("id")
            low.report("PLAN101", message, place.span if place is not None else item.span)
    return result


def _services(low: Lowering, node: Node | None) -> list[Mapping]:
    """The services of a plan as the tasks that they are: their names are ids."""
    entries = node.entries if isinstance(node, Mapping) else []
    for key, _ in entries:
        name = str(key.value)
        if not (name.isascii() and name.replace("-", "_").isidentifier()) or name.startswith("-"):
            low.report("PLAN006", f"`{name}` is not a name for a service", key.span, "write a name such as `db`")
    return [
        Mapping([(Scalar("id", key.start, key.start), key), *value.entries], value.start, value.end, value.flow)
        for key, value in entries
        if isinstance(value, Mapping)
    ]


def _items(node: Node | None) -> list[Mapping]:
    return [item for item in node.items if isinstance(item, Mapping)] if isinstance(node, Sequence) else []


def _limits(node: Node) -> tuple[tuple[str, int], ...]:
    entries = node.entries if isinstance(node, Mapping) else []
    return tuple((str(key.value), number) for key, value in entries if (number := values.whole(value)))


def _on_failure(node: Node) -> str:
    word = values.text(node)
    return word if word in ("continue", "rollback", "cancel") else "stop"


def _alone(read: Callable[[Node], Any]) -> Callable[[Lowering, Node], Any]:
    return lambda low, node: read(node)


_READERS: dict[str, Callable[[Lowering, Node], Any]] = {
    "artifacts": _alone(declarations.artifacts),
    "breakers": declarations.breakers,
    "budgets": lambda low, node: declarations.budgets(low, node, Budgets()),
    "data": _alone(values.data),
    "deadline": declarations.deadline,
    "hypotheses": hypotheses.declared,
    "limits": _alone(_limits),
    "on_failure": _alone(_on_failure),
    "outputs": declarations.outputs,
    "pairs": _alone(values.pairs),
    "params": declarations.params,
    "parallel": lambda low, node: values.whole(node) or 5,
    "rollback": declarations.rollback,
    "text": _alone(values.text),
    "whole": _alone(values.whole),
}
"""What each word under ``read`` of the table of keys does; those without one are read with others."""
_READ = tuple((row.name, _READERS[row.read]) for row in PLAN.keys if row.read in _READERS)
_NOTED = tuple(row.name for row in PLAN.keys if row.read in ("note", "deadline"))
"""The keys of a plan that are kept as people read them."""

NAME = "definition-of-done"
"""The id of the task that a plan with ``done`` ends with."""


def with_done(low: Lowering, key: Scalar, node: Node, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of a plan with the one made from its ``done``, before those under ``finally``."""
    found = criteria(low, node, low.known(RUN))
    if not found:
        return tasks
    for task in tasks:
        if task.id.casefold() == NAME:
            label = Label(key.span, "the task of this `done` is called so")
            message = f"`{task.id}` is the id of the task made from the plan's `done`"
            low.report("PLAN102", message, task.span, "give the task another id", label)
            return tasks
    return concluded(tasks, found, key.span)


def concluded(tasks: tuple[Task, ...], criteria: tuple[Criterion, ...], span: Span = NOWHERE) -> tuple[Task, ...]:
    """The tasks with one that asks these criteria."""
    last = Task(NAME, "definition of done", uses="noop", expect=criteria, span=span, concluding=True)
    last = last._replace(spans=(("done", span),))
    main = [task for task in tasks if not task.finally_]
    return (*main, last, *(task for task in tasks if task.finally_))


def without_done(plan: Plan) -> Plan:
    """The plan, and all plans that it links, without the tasks made from ``done``."""
    return plan._replace(tasks=_without(plan.tasks))


def _without(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    return tuple(_task_without(task) for task in tasks if not task.concluding)


def _task_without(task: Task) -> Task:
    if task.sub is not None:
        return task._replace(sub=without_done(task.sub))
    if task.loop is not None:
        return task._replace(loop=task.loop._replace(tasks=_without(task.loop.tasks)))
    return task._replace(subplan=_without(task.subplan)) if task.subplan else task
