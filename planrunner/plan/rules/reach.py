"""Places in the graph: edges that can never fire, tasks that only such edges lead to, roles that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.expressions.evaluate import constant
from planrunner.plan.model import Edge, Task
from planrunner.plan.rules.view import PlanView, plan_key, span_of
from planrunner.plan.tasks import comes_last
from planrunner.plan.templated import templates
from planrunner.source import Span

NEVER_FAILS = frozenset({"noop"})
"""Capabilities that do nothing that could go wrong."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not any(task.edges for task in view.plan.tasks):
        return
    dead: dict[tuple[int, int], bool] = {}
    for here, task in enumerate(view.plan.tasks):
        for edge in task.edges:
            there = view.graph.find(edge.target)
            reason = _dead(task, edge)
            if reason:
                yield Diagnostic("PLAN106", f"this edge to `{edge.target}` can never fire", _place(task, edge), reason)
            if there >= 0:
                dead[here, there] = bool(reason) and dead.get((here, there), True)
    yield from _unreachable(view, {pair for pair, is_dead in dead.items() if is_dead})


def check_steps(view: PlanView) -> Iterable[Diagnostic]:
    """Lists called ``steps`` that say no order: they look as if they had one."""
    text = view.source.text
    lists = [(span_of(task, "subplan"), task.subplan) for task in view.plan.tasks if task.subplan]
    if view.whole:
        lists.append((plan_key(view, "steps"), view.plan.tasks))
    for span, tasks in lists:
        tasks = tuple(task for task in tasks if not comes_last(task))
        if text[span.start : span.end] != "steps" or len(tasks) < 2 or any(task.needs or task.edges for task in tasks):
            continue
        help_ = (
            f"say what they wait for, `needs: [{tasks[0].id}]`; a list with a step that has no `id` is done in order"
        )
        yield Diagnostic("PLAN621", "these steps all start at once", span, help=help_)


def _place(task: Task, edge: Edge) -> Span:
    return edge.span if edge.span.end else span_of(task, "next", "on_failure", "on_success")


def _dead(task: Task, edge: Edge) -> str:
    if edge.condition is not None and constant(edge.condition.tree) is False:
        return f"`{edge.condition.text}` is always false"
    if edge.on == "failure" and _cannot_fail(task):
        return f"`{task.id}` cannot fail"
    if edge.on == "success" and task.uses == "fail":
        return f"`{task.id}` always fails"
    return ""


def _cannot_fail(task: Task) -> bool:
    """A task that does nothing, checks nothing and fills in no template, which might lack a value."""
    if task.uses not in NEVER_FAILS or task.gate is not None:
        return False
    checks = task.expect or task.postconditions or task.preconditions or task.failure_modes
    return not (checks or task.outputs or task.artifacts or task.env or task.stdin or any(templates(task.inputs)))


def _unreachable(view: PlanView, dead: set[tuple[int, int]]) -> Iterator[Diagnostic]:
    """Tasks without any way in: they are led to by edges, and every way to one of those edges is closed."""
    graph = view.graph
    open_ = [False] * len(graph)
    pending = [len(graph.needs[here]) for here in range(len(graph))]
    routed = [not graph.routed_from[here] for here in range(len(graph))]
    queue = [here for here in range(len(graph)) if not pending[here] and routed[here]]
    for here in queue:
        open_[here] = True
        for there in graph.dependents[here]:
            pending[there] -= 1
            if routed[there] and (not pending[there]):
                queue.append(there)
        for there in graph.routes[here]:
            if (here, there) not in dead and not routed[there]:
                routed[there] = True
                if not pending[there]:
                    queue.append(there)
    circular = set().union(*graph.circuits(), *graph.cycles()) if not graph.is_acyclic() else ()
    for here in range(len(graph)):
        if not open_[here] and not routed[here] and here not in circular:
            yield _report(view, here)


def _report(view: PlanView, here: int) -> Diagnostic:
    task = view.plan.tasks[here]
    labels = []
    for source in view.graph.routed_from[here][:6]:
        other = view.plan.tasks[source]
        labels += [
            Label(_place(other, edge), f"the edge from `{other.id}` never leads here")
            for edge in other.edges
            if edge.target == task.id
        ]
    return Diagnostic("PLAN105", f"no path leads to `{task.id}`", task.span, "never starts", tuple(labels[:6]))


MEANING = {
    "START": "no task before it",
    "EXIT": "no task after it",
    "LINEAR": "one task before and one after",
    "DECISION": "edges that an outcome or a condition chooses",
    "BRANCH": "more than one task after it, whatever happens",
    "SPLIT": "a fan-out, a loop or a subplan",
    "MERGE": "more than one task before it",
}


def check_roles(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.role:
            played = view.graph.roles(here)
            if task.role.upper() not in played:
                meaning = MEANING.get(task.role.upper(), "no such role")
                message = (
                    f"`{task.id}` declares the role {task.role} but its place in the graph is {' and '.join(played)}"
                )
                help_ = f"{task.role} means: {meaning}"
                yield Diagnostic("PLAN110", message, span_of(task, "role"), help=help_)
