"""A task reads only tasks that run before it, and only what they are sure to have by then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.agents import REFLECTION
from planrunner.plan.graph import BATCH, Graph
from planrunner.plan.model import Task
from planrunner.plan.rules.guarantees import COMPLETED, OF_A_RUN, OF_A_SUCCESS, RAN, Guarantees, Outcomes
from planrunner.plan.rules.texts import Read, Site, paths_in, place_of, reads_of
from planrunner.plan.rules.view import PlanView, has_key, region_of, span_of
from planrunner.plan.tasks import comes_last
from planrunner.records import Struct
from planrunner.source import Source, Span

_SAID = (("decision",), ("by",), ("reason",), ("comment",))
"""Outputs of a gate however it was decided."""


class _Ordered(Struct):
    """A read of the task at position ``earlier``."""

    read: Read
    earlier: int


def check(view: PlanView) -> Iterable[Diagnostic]:
    reads = [read for read in reads_of(view) if len(read.path) > 1 and read.path[0] == "tasks"]
    ordered = [_Ordered(read, view.graph.find(read.path[1])) for read in reads]
    if view.outer:
        yield from _outside(view, [item.read for item in ordered if item.earlier < 0])
    ordered = [item for item in ordered if item.earlier >= 0]
    ordered = [item for item in ordered if item.read.here >= 0 and not _own_result(item) and not _inner(view, item)]
    if not ordered:
        return
    tasks = view.plan.tasks
    before = view.graph.precedes([(item.earlier, item.read.here) for item in ordered])
    upstream = []
    for item, is_before in zip(ordered, before, strict=True):
        if is_before and not _is_needed_whole(view.graph, item):
            yield _not_upstream(view, item)
        elif is_before:
            upstream.append(item)
        elif not comes_last(tasks[item.read.here]) or tasks[item.earlier].finally_:
            yield _not_upstream(view, item)
        else:
            upstream.append(item)
    yield from _maybe_missing(view, upstream)


def _outside(view: PlanView, reads: Sequence[Read]) -> Iterator[Diagnostic]:
    """Reads of tasks around the container of this list, which must run before the container does."""
    for read in reads:
        for graph, container in view.around.places:
            other = graph.index.get(read.path[1], -1)
            if other < 0:
                continue
            if (
                other != container
                and not graph.precedes([(other, container)])[0]
                and not graph.tasks[container].finally_
            ):
                yield _not_before(view, read, graph.tasks[other], graph.tasks[container])
            elif other == container and len(read.path) > 2 and read.path[2] in (OF_A_RUN | OF_A_SUCCESS):
                message = f"`{view.plan.tasks[read.here].id}` reads `{graph.ids[other]}`, which it is part of"
                yield Diagnostic("PLAN203", message, place_of(view, read.place, read.start, read.end))
            break


def _not_before(view: PlanView, read: Read, other: Task, container: Task) -> Diagnostic:
    task = view.plan.tasks[read.here]
    message = f"`{task.id}` in `{container.id}` reads `{other.id}`, which is not guaranteed to run before it"
    labels = (Label(other.span, f"`{other.id}` is defined here"),)
    help_ = f"add `{other.id}` to the needs of `{container.id}`"
    return Diagnostic("PLAN203", message, place_of(view, read.place, read.start, read.end), labels=labels, help=help_)


def _inner(view: PlanView, item: _Ordered) -> bool:
    """Whether the read is of a task inside the reader, which hides one of the same name around it."""
    reader = view.plan.tasks[item.read.here]
    if item.read.moment != "rounds":
        return False
    inner = (*reader.subplan, *(reader.loop.tasks if reader.loop is not None else ()))
    return any(task.id == item.read.path[1] for task in inner)


def _own_result(item: _Ordered) -> bool:
    return item.earlier == item.read.here and item.read.moment in ("after", "detect", "checks")


def _is_needed_whole(graph: Graph, item: _Ordered) -> bool:
    """Whether what is read of a family is over by then: its reader may need but single members, and others than that
    which it reads."""
    named, family = graph.tasks[item.read.here].join.named, graph.ids[item.earlier]
    if not named or item.read.path[1] in named or family in named or item.earlier not in graph.needs[item.read.here]:
        return True
    others = [each for each in graph.before(item.read.here) if each != item.earlier]
    return any(graph.precedes([(item.earlier, each) for each in others]))


def _place(view: PlanView, item: _Ordered) -> Span:
    return place_of(view, item.read.place, item.read.start, item.read.end)


def _not_upstream(view: PlanView, item: _Ordered) -> Diagnostic:
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    labels = (Label(other.span, f"`{other.id}` is defined here"),)
    if item.earlier == item.read.here:
        message = f"`{task.id}` reads its own result before it has one"
        help_ = "its outputs are `outputs.NAME` in its `expect` and `next`; tasks that need it read them by its id"
        if item.read.place.key == "artifacts":
            help_ = "the path of an artifact may be a pattern, such as `dist/*.whl`"
        return Diagnostic("PLAN203", message, _place(view, item), help=help_)
    if task.concluding:
        message = f"`done` reads `{other.id}`, which is in `finally` and runs after it"
        return Diagnostic("PLAN203", message, _place(view, item), labels=labels)
    if view.graph.precedes([(item.read.here, item.earlier)])[0]:
        message = f"`{task.id}` reads `{other.id}`, which runs after it"
        return Diagnostic("PLAN203", message, _place(view, item), labels=labels)
    name = item.read.path[1]
    message = f"`{task.id}` reads `{name}`, which is not guaranteed to run before it"
    edit = _need_edit(view, task, name)
    fix = Fix(f"let `{task.id}` need `{name}`", (edit,), safe=False) if edit else None
    help_ = f"add `{name}` to the needs of `{task.id}`"
    return Diagnostic("PLAN203", message, _place(view, item), labels=labels, help=help_, fix=fix)


def _need_edit(view: PlanView, task: Task, need: str) -> Edit | None:
    """The edit that adds a need, where the layout of the task is one of the usual ones."""
    source = view.source
    if has_key(task, "needs"):
        return _extended(source, region_of(view, task, "needs"), need)
    if source.notation == "text":
        return _text_need(source, task, need)
    if source.notation == "json" or not has_key(task, "id"):
        return None
    key = span_of(task, "id")
    line_start = source.text.rfind("\n", 0, key.start) + 1
    if "{" in source.text[line_start : key.start]:
        return Edit(Span(task.span.end, task.span.end), f", needs: [{need}]")
    line_end = source.text.find("\n", task.span.end)
    end = len(source.text) if line_end < 0 else line_end
    return Edit(Span(end, end), f"\n{' ' * (key.start - line_start)}needs: [{need}]")


def _text_need(source: Source, task: Task, need: str) -> Edit:
    line_start = source.text.rfind("\n", 0, task.span.start) + 1
    depth = len(source.text[line_start:]) - len(source.text[line_start:].lstrip(" "))
    line_end = source.text.find("\n", task.span.end)
    end = len(source.text) if line_end < 0 else line_end
    return Edit(Span(end, end), f"\n{' ' * (depth + 2)}needs: {need}")


def _extended(source: Source, region: Span, need: str) -> Edit | None:
    text = source.text[region.start : region.end]
    flow = re.match(r"needs\s*:\s*\[[^\]\n]*?(\s*)\]", text)
    if flow:
        at = region.start + flow.start(1)
        return Edit(Span(at, at), need if text[: flow.start(1)].endswith("[") else f", {need}")
    single = re.match(r"needs\s*:[ ]*([A-Za-z_][A-Za-z0-9_-]*)[ ]*(?=#|\n|$)", text)
    if single:
        span = Span(region.start + single.start(1), region.start + single.end(1))
        separate = f"{single.group(1)}, {need}"
        return Edit(span, separate if source.notation == "text" else f"[{separate}]")
    return None


def _maybe_missing(view: PlanView, reads: Sequence[_Ordered]) -> Iterator[Diagnostic]:
    graph = view.graph
    if not graph.is_acyclic():
        return
    doubtful = [item for item in reads if _wanted(item.read) and not _sure(graph, item) and not _reflects(graph, item)]
    sources = list(dict.fromkeys(item.earlier for item in doubtful))
    outcomes = Outcomes(graph)
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        known = Guarantees(graph, outcomes, batch)
        yield from (_report(view, item) for item in doubtful if item.earlier in known and _missing(known, item))


def _wanted(read: Read) -> bool:
    return len(read.path) > 2 and (read.path[2] in OF_A_SUCCESS or read.path[2] in OF_A_RUN) and not read.optional


def _reflects(graph: Graph, item: _Ordered) -> bool:
    """Whether the reader looks back on the other task, however that ended."""
    return REFLECTION in (graph.tasks[item.read.here].notes or {})


def _sure(graph: Graph, item: _Ordered) -> bool:
    """The usual case, without a sweep: the reader needs the other task completed."""
    reader = graph.tasks[item.read.here]
    return (
        reader.join.kind == "all"
        and item.earlier in graph.needs[item.read.here]
        and not graph.tasks[item.earlier].allow_failure
    )


def _missing(known: Guarantees, item: _Ordered) -> bool:
    """Whether the value may be missing where it is read: after an outcome with which the reader starts, and where the
    expression that it stands in comes to read it."""
    read, graph = item.read, known.graph
    other = graph.tasks[item.earlier]
    member = read.path[2]
    if _is_told_to_handler(graph, item):
        return False
    site = read.place if isinstance(read.place, Site) else None
    asks = site is not None and site.key == "when"
    found = known.at_condition(read.here, item.earlier) if asks else known.at_start(read.here, item.earlier)
    found -= RAN if member in OF_A_RUN and not other.preconditions else COMPLETED
    if site is None:
        return bool(found)

    def reads(tree: Any) -> bool:
        paths = [path for path, _, _, optional in paths_in(tree) if not optional]
        return any(path[:3] == read.path[:3] for path in paths)

    return any(known.outcomes.failing(site.expression, item.earlier, each, reads) for each in found)


def _is_told_to_handler(graph: Graph, item: _Ordered) -> bool:
    """What a rejected gate gives the task that its ``on_reject`` leads to."""
    here, source = item.read.here, graph.tasks[item.earlier]
    if source.gate is None or item.read.path[2] != "outputs" or item.read.path[3:4] not in _SAID:
        return False
    leading = [edge for edge in source.edges if graph.find(edge.target) == here]
    alone = graph.routed_from[here] == [item.earlier]
    return alone and all(edge.on == "success" or edge.failure_class == "rejected" for edge in leading)


def _report(view: PlanView, item: _Ordered) -> Diagnostic:
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    what = "have completed" if item.read.path[2] in OF_A_SUCCESS else "have run"
    reader = "`done`" if task.concluding else f"`{task.id}`"
    message = f"`{other.id}` may not {what} when {reader} reads its {item.read.path[2]}"
    labels = (Label(_reason(view, item), "this lets the task start without it"),) if _reason(view, item).end else ()
    way = f"`not tasks.{other.id}.ok or …`" if task.concluding else f"`when: tasks.{other.id}.ok`"
    help_ = f"check it first, for example with {way}, or provide a fallback with `default(…)`"
    return Diagnostic("PLAN204", message, _place(view, item), labels=labels, help=help_)


def _reason(view: PlanView, item: _Ordered) -> Span:
    """The key that lets the reader start without the other task."""
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    if has_key(task, "join"):
        return span_of(task, "join")
    return span_of(other, "allow_failure") if other.allow_failure and has_key(other, "allow_failure") else Span(0, 0)


def check_sessions(view: PlanView) -> Iterable[Diagnostic]:
    """Tasks that continue one session of an agent have a defined order."""
    tasks = view.plan.tasks
    by_session: dict[str, list[int]] = {}
    for here, task in enumerate(tasks):
        if task.agent is not None and task.agent.session:
            by_session.setdefault(task.agent.session, []).append(here)
    pairs = [pair for positions in by_session.values() for pair in pairwise(positions)]
    before = view.graph.precedes([*pairs, *((second, first) for first, second in pairs)]) if pairs else []
    for (first, second), forth, back in zip(pairs, before, before[len(pairs) :]):
        if not (forth or back):
            yield _unordered(tasks[first], tasks[second])


def _unordered(first: Task, second: Task) -> Diagnostic:
    session = second.agent.session if second.agent is not None else ""
    return Diagnostic(
        "PLAN851",
        f"`{first.id}` and `{second.id}` continue the session `{session}` in no defined order",
        span_of(second, "session"),
        labels=(Label(span_of(first, "session"), f"`{first.id}` continues it too"),),
        help=f"order the tasks (`needs: [{first.id}]`), or give each its own session",
    )
