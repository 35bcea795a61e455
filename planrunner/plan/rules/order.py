"""A task reads only tasks that run before it, and only what they are sure to have by then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.graph import BATCH, Graph
from planrunner.plan.holding import comes_last
from planrunner.plan.model import Task
from planrunner.plan.rules.places import place_of
from planrunner.plan.rules.reading import Read, Site, reads_of
from planrunner.plan.rules.view import PlanView, has_key, region_of, span_of
from planrunner.record import NamedTuple
from planrunner.source import Source, Span

CODES = ("PLAN203", "PLAN204")

_RAN = frozenset({"stdout", "stderr", "exit_code", "duration"})
_COMPLETED = frozenset({"outputs", "artifacts"})
_RESULT = r"\.\s*(?:status|ok|completed|failed|skipped|omitted|done)\b|\bexists\s*\(|\bdefault\s*\(|is defined"
"""A condition that asks how a task ended, or for a value that may be missing, shows that its author thought of it."""


class _Ordered(NamedTuple):
    """A read of the task at position ``earlier``."""

    read: Read
    earlier: int


def check(view: PlanView) -> Iterable[Diagnostic]:
    reads = [read for read in reads_of(view) if len(read.path) > 1 and read.path[0] == "tasks"]
    if view.outer:
        yield from _outside(view, [read for read in reads if read.path[1] not in view.positions])
    found = [_Ordered(read, view.positions[read.path[1]]) for read in reads if read.path[1] in view.positions]
    found = [item for item in found if item.read.here >= 0 and not _own_result(item) and not _inner(view, item)]
    if not found:
        return
    tasks = view.plan.tasks
    before = view.graph.precedes([(item.earlier, item.read.here) for item in found])
    upstream = []
    for item, is_before in zip(found, before, strict=True):
        if is_before:
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
            elif other == container and len(read.path) > 2 and read.path[2] in (_RAN | _COMPLETED):
                message = f"`{view.plan.tasks[read.here].id}` reads `{graph.ids[other]}`, which it is part of"
                yield Diagnostic("PLAN203", message, place_of(view, read.place, read.start, read.end))
            break


def _not_before(view: PlanView, read: Read, other: Task, container: Task) -> Diagnostic:
    task = view.plan.tasks[read.here]
    message = f"`{task.id}` in `{container.id}` reads `{other.id}`, which need not run before it"
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


def _place(view: PlanView, item: _Ordered) -> Span:
    return place_of(view, item.read.place, item.read.start, item.read.end)


def _not_upstream(view: PlanView, item: _Ordered) -> Diagnostic:
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    labels = (Label(other.span, f"`{other.id}` is defined here"),)
    if item.earlier == item.read.here:
        message = f"`{task.id}` reads its own result before it has one"
        return Diagnostic("PLAN203", message, _place(view, item))
    if task.concluding:
        message = f"`done` reads `{other.id}`, which stands under `finally` and runs after it"
        return Diagnostic("PLAN203", message, _place(view, item), labels=labels)
    if view.graph.precedes([(item.read.here, item.earlier)])[0]:
        message = f"`{task.id}` reads `{other.id}`, which runs after it"
        return Diagnostic("PLAN203", message, _place(view, item), labels=labels)
    message = f"`{task.id}` reads `{other.id}`, which need not run before it"
    edit = _need_edit(view, task, other.id)
    fix = Fix(f"let `{task.id}` need `{other.id}`", (edit,), safe=False) if edit else None
    help_ = f"add `{other.id}` to the needs of `{task.id}`"
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
    doubtful = [item for item in reads if _wanted(item.read) and not _sure(graph, item) and not _thought_of(view, item)]
    sources = list(dict.fromkeys(item.earlier for item in doubtful))
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        bits = {source: 1 << bit for bit, source in enumerate(batch)}
        completed, ran = _guarantees(graph, bits)
        _at_the_end(graph, bits, completed, ran)
        for item in doubtful:
            bit = bits.get(item.earlier, 0)
            known = (completed if item.read.path[2] in _COMPLETED else ran)[item.read.here]
            if bit and not known & bit:
                yield _report(view, item)


def _wanted(read: Read) -> bool:
    return len(read.path) > 2 and (read.path[2] in _COMPLETED or read.path[2] in _RAN) and not read.optional


def _sure(graph: Graph, item: _Ordered) -> bool:
    """The usual case, without a sweep: the reader needs the other task completed."""
    reader = graph.tasks[item.read.here]
    return (
        reader.join.kind == "all"
        and item.earlier in graph.needs[item.read.here]
        and not graph.tasks[item.earlier].allow_failure
    )


def _thought_of(view: PlanView, item: _Ordered) -> bool:
    task, place = view.plan.tasks[item.read.here], item.read.place
    condition = place.expression if task.concluding and isinstance(place, Site) else task.when
    return condition is not None and bool(re.search(_RESULT, condition.text))


def _guarantees(graph: Graph, bits: dict[int, int]) -> tuple[list[int], list[int]]:
    """For each task which of the tasks in ``bits`` have completed, and which have run, whenever it starts."""
    completed, ran = [0] * len(graph), [0] * len(graph)
    for here in graph.order:
        done, tried = _by_needs(graph, here, bits, completed, ran)
        if graph.routed_from[here]:
            by_route = [_by_route(graph, source, here, bits, completed, ran) for source in graph.routed_from[here]]
            done |= _common(each[0] for each in by_route)
            tried |= _common(each[1] for each in by_route)
        completed[here] = done
        ran[here] = done | tried
    return completed, ran


def _at_the_end(graph: Graph, bits: dict[int, int], completed: list[int], ran: list[int]) -> None:
    """The same for the task that stands for ``done``: it starts only where nothing failed."""
    conclusion = next((here for here, task in enumerate(graph.tasks) if task.concluding), -1)
    if conclusion < 0:
        return
    sure: set[int] = set()
    for here in graph.order:
        task = graph.tasks[here]
        always = task.when is None and task.join.kind == "all" and not graph.routed_from[here]
        if always and not task.allow_failure and not comes_last(task) and sure.issuperset(graph.needs[here]):
            sure.add(here)
    completed[conclusion] = ran[conclusion] = _union(bit for here, bit in bits.items() if here in sure)


def _by_needs(
    graph: Graph, here: int, bits: dict[int, int], completed: Sequence[int], ran: Sequence[int]
) -> tuple[int, int]:
    needs = graph.needs[here]
    if not needs:
        return 0, 0
    task = graph.tasks[here]
    kind = task.join.kind
    if kind == "expression":
        needs = [need for need in needs if _demanded(task, graph.ids[need])]
    firm = [(completed[need] | bits.get(need, 0), ran[need]) for need in needs if not graph.tasks[need].allow_failure]
    if kind in ("all", "expression"):
        return _union(each[0] for each in firm), _union(each[1] for each in firm)
    if kind in ("any", "at_least") and len(firm) == len(needs):
        if task.join.count == len(needs):
            return _union(each[0] for each in firm), _union(each[1] for each in firm)
        return _common(each[0] for each in firm), _common(each[1] for each in firm)
    if kind == "all_failed" or (kind == "one_failed" and len(needs) == 1):
        return _union(completed[need] for need in needs), _union(ran[need] | bits.get(need, 0) for need in needs)
    return 0, 0


def _demanded(task: Task, need: str) -> bool:
    """Whether the join expression is true only with ``need`` completed: it stands in a plain conjunction."""
    expression = task.join.expression
    if expression is None or re.search(r"\b(?:or|not|if)\b", expression.text):
        return False
    return re.search(rf"(?<![\w-]){re.escape(need)}\s*\.\s*(?:ok|completed)\b", expression.text) is not None


def _by_route(
    graph: Graph, source: int, here: int, bits: dict[int, int], completed: Sequence[int], ran: Sequence[int]
) -> tuple[int, int]:
    target = graph.ids[here]
    own = bits.get(source, 0)
    succeeds = all(edge.on == "success" for edge in graph.tasks[source].edges if edge.target == target)
    return completed[source] | (own if succeeds else 0), ran[source] | own


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _common(masks: Iterable[int]) -> int:
    result = -1
    for mask in masks:
        result &= mask
    return max(result, 0)


def _report(view: PlanView, item: _Ordered) -> Diagnostic:
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    what = "have completed" if item.read.path[2] in _COMPLETED else "have run"
    reader = "`done`" if task.concluding else f"`{task.id}`"
    message = f"`{other.id}` need not {what} when {reader} reads its {item.read.path[2]}"
    labels = (Label(_reason(view, item), "this lets the task start without it"),) if _reason(view, item).end else ()
    way = f"`not tasks.{other.id}.ok or …`" if task.concluding else f"`when: tasks.{other.id}.ok`"
    help_ = f"ask first, such as {way}, or give a value for the other case with `default(…)`"
    return Diagnostic("PLAN204", message, _place(view, item), labels=labels, help=help_)


def _reason(view: PlanView, item: _Ordered) -> Span:
    """The key that lets the reader start without the other task."""
    task, other = view.plan.tasks[item.read.here], view.plan.tasks[item.earlier]
    if has_key(task, "join"):
        return span_of(task, "join")
    return span_of(other, "allow_failure") if other.allow_failure and has_key(other, "allow_failure") else Span(0, 0)
