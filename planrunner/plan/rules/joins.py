"""A join can be met: nothing that must both succeed and fail, no count above the number of needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.expressions.tree import path_of
from planrunner.plan.model import Edge, Task
from planrunner.plan.rules.view import PlanView, find_word, span_of
from planrunner.plan.tasks import comes_last

LOOK_UP = 2_000
"""How many ancestors are looked at for one failure edge: handlers stand close to what they handle."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if any(comes_last(task) for task in view.plan.tasks):
        yield from _after_the_end(view)
    for here, task in enumerate(view.plan.tasks):
        if task.join.kind == "at_least" and task.needs:
            yield from _too_many(task)
        elif task.join.kind == "expression":
            yield from _contradiction(task)
        for edge in task.edges:
            if edge.rework:
                continue
            if edge.on == "failure" and not edge.recovers and not task.allow_failure:
                yield from _both_ways(view, here, edge)
            elif edge.recovers:
                yield from _waits_for_itself(view, here, edge)


def _after_the_end(view: PlanView) -> Iterable[Diagnostic]:
    """Tasks that need one under ``finally``, or the one that stands for ``done``, which start when they have settled;
    and edges to the latter."""
    tasks = view.graph.tasks
    for here, task in enumerate(tasks):
        for there in view.graph.needs[here]:
            last = tasks[there]
            if comes_last(last) and not task.finally_:
                where = "is in `finally`" if last.finally_ else "is the plan's `done`"
                message = f"`{task.id}` can never start: it needs `{last.id}`, which {where} and runs last"
                labels = (Label(last.span, f"`{last.id}` is defined here"),)
                yield Diagnostic("PLAN108", message, find_word(view, task, last.id, "needs"), labels=labels)
        for edge in task.edges:
            there = view.graph.find(edge.target)
            if there >= 0 and tasks[there].concluding:
                message = f"`{edge.target}` is the plan's `done` and starts by itself: no edge leads to it"
                yield Diagnostic("PLAN108", message, edge.span if edge.span.end else span_of(task, "next"))


def _waits_for_itself(view: PlanView, here: int, edge: Edge) -> Iterable[Diagnostic]:
    """A handler that needs what it should recover: the failed task waits for it, and it for the failed task."""
    target = view.graph.find(edge.target)
    if target < 0:
        return
    queue, seen = [target], {target}
    for number in queue:
        if len(seen) > LOOK_UP:
            return
        if view.graph.tasks[number].join.kind != "all":
            continue
        for need in view.graph.needs[number]:
            if need == here:
                failed = view.graph.tasks[here].id
                message = f"`{edge.target}` can never recover `{failed}`: it starts only after `{failed}` has completed"
                labels = (Label(view.graph.tasks[number].span, f"`{view.graph.tasks[number].id}` needs `{failed}`"),)
                yield Diagnostic("PLAN108", message, edge.span, labels=labels)
                return
            if need not in seen:
                seen.add(need)
                queue.append(need)


def _too_many(task: Task) -> Iterable[Diagnostic]:
    count = len(set(task.join.named or task.needs))
    if task.join.count > count:
        span = task.join.span if task.join.span.end else span_of(task, "join")
        message = f"the join requires {task.join.count} completed needs, but `{task.id}` has {count}"
        yield Diagnostic("PLAN108", message, span, labels=(Label(span_of(task, "needs"), f"{count} needs"),))


def _contradiction(task: Task) -> Iterable[Diagnostic]:
    expression = task.join.expression
    if expression is None:
        return
    wanted: dict[str, str] = {}
    for name, result in _demands(expression.tree):
        if wanted.setdefault(name, result) != result:
            span = expression.span if expression.span.end else span_of(task, "needs", "join")
            message = f"`{expression.text}` is never true: `{name}` cannot both be {wanted[name]} and {result}"
            yield Diagnostic("PLAN108", message, span)
            return


_SAME = {"ok": "completed", "cut_off": "omitted"}
"""Flags that are never true without another one."""
_RESULTS = frozenset({*_SAME, "completed", "failed", "skipped", "omitted", "cancelled"})


def _demands(tree: Any) -> Iterable[tuple[str, str]]:
    """The results that a conjunction demands of tasks, ``a.ok and b.failed`` giving both."""
    queue = [tree]
    for node in queue:
        if node[0] == "and":
            queue += node[3]
            continue
        path = path_of(node) or ()
        if path[:1] == ("tasks",):
            path = path[1:]
        if len(path) == 2 and path[1] in _RESULTS:
            yield path[0], _SAME.get(path[1], path[1])


def _both_ways(view: PlanView, here: int, edge: Edge) -> Iterable[Diagnostic]:
    """A task that only a failure leads to, and that needs the same task completed as well."""
    graph = view.graph
    handler = graph.find(edge.target)
    if handler < 0 or not _only_failure(view, here, handler):
        return
    behind = [handler]
    seen = {handler}
    for there in behind:
        if _all(view, there) and any(_demands_success(view, need, here, seen) for need in graph.needs[there]):
            yield _report(view, here, there, handler)
            return
        for after in graph.dependents[there]:
            if after not in seen and _all(view, after):
                seen.add(after)
                behind.append(after)
        if len(behind) > LOOK_UP:
            return


def _only_failure(view: PlanView, here: int, handler: int) -> bool:
    if view.graph.routed_from[handler] != [here]:
        return False
    target = view.graph.ids[handler]
    return all(edge.on == "failure" for edge in view.graph.tasks[here].edges if edge.target == target)


def _all(view: PlanView, here: int) -> bool:
    return view.graph.tasks[here].join.kind == "all"


def _demands_success(view: PlanView, need: int, wanted: int, behind: set[int]) -> bool:
    """Whether completing ``need`` takes that ``wanted`` completed."""
    graph = view.graph
    queue = [need]
    seen = set(queue)
    for here in queue:
        if here == wanted:
            return True
        task = graph.tasks[here]
        if here in behind or len(queue) > LOOK_UP:
            continue
        if graph.routed_from[here] == [wanted] and _only_success(view, wanted, here):
            return True
        if task.join.kind == "all":
            for there in graph.needs[here]:
                if there not in seen and not graph.tasks[there].allow_failure and not _healed(graph.tasks[there]):
                    seen.add(there)
                    queue.append(there)
    return False


def _only_success(view: PlanView, here: int, target: int) -> bool:
    name = view.graph.ids[target]
    return all(edge.on == "success" for edge in view.graph.tasks[here].edges if edge.target == name)


def _healed(task: Task) -> bool:
    return any(edge.recovers for edge in task.edges)


def _report(view: PlanView, source: int, here: int, handler: int) -> Diagnostic:
    failed, task, target = (view.graph.tasks[number] for number in (source, here, handler))
    edge = next(edge for edge in failed.edges if view.graph.find(edge.target) == handler)
    edge_span = edge.span if edge.span.end else span_of(failed, "on_failure", "next")
    first = next((need for need in task.needs if need != target.id), failed.id)
    return Diagnostic(
        "PLAN108",
        f"`{task.id}` can never start: it needs `{failed.id}` both completed and failed",
        find_word(view, task, failed.id if failed.id in task.needs else first, "needs"),
        label=f"needs `{failed.id}` completed",
        labels=(Label(edge_span, f"`{target.id}` starts only when `{failed.id}` fails"),),
        help="remove the need (the edge already orders the tasks), or write `join: any`",
    )
