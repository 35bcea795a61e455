"""Evidence names a declared hypothesis, every hypothesis has evidence, and a confidence is read after evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.graph import Graph
from planrunner.plan.model import BEST, RANKED, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.texts import Site, Text, expressions_of, paths_in, place_of, texts_of
from planrunner.plan.rules.view import PlanView, names
from planrunner.plan.tasks import comes_last
from planrunner.plan.templates import references
from planrunner.source import Span

_OF_ALL = (BEST, RANKED)


def check(view: PlanView) -> Iterable[Diagnostic]:
    known = {each.name: each for each in view.plan.hypotheses}
    for task in view.plan.tasks:
        for evidence in task.evidence:
            if evidence.hypothesis not in known:
                yield _unknown(view, evidence.hypothesis, evidence.span)
    if not known:
        return
    if not view.outer:
        yield from _without_evidence(view)
    yield from _too_early(view)


def _unknown(view: PlanView, name: str, span: Span) -> Diagnostic:
    known = [each.name for each in view.plan.hypotheses]
    close = nearest(name, known)
    message = f"evidence is about `{name}`, which is not a hypothesis of the plan"
    if close is None:
        declare = f"declare it: `hypotheses: {{{name}: …}}`"
        return Diagnostic("PLAN231", message, span, help=f"{declare}; there is {names(known)}" if known else declare)
    edit = Edit(span, close)
    written = view.source.text[span.start : span.end] == name
    fix = Fix(f"write `{close}`", (edit,), safe=False) if written else None
    return Diagnostic("PLAN231", message, span, help=f"did you mean `{close}`?", fix=fix)


def _within(task: Task) -> Iterator[Task]:
    """A task and what it holds in the same plan: a linked plan has hypotheses of its own."""
    waiting = [task]
    for each in waiting:
        yield each
        waiting += (*each.subplan, *(each.loop.tasks if each.loop is not None else ()))


def _weighs(task: Task) -> set[str]:
    return {evidence.hypothesis for each in _within(task) for evidence in each.evidence}


def _without_evidence(view: PlanView) -> Iterator[Diagnostic]:
    known = [each.name for each in view.plan.hypotheses]
    weighed = {name for task in view.plan.tasks for name in _weighs(task)}
    weighed |= {nearest(name, known) or "" for name in weighed.difference(known)}  # a slip, which is told already
    idle = [each for each in view.plan.hypotheses if each.name not in weighed]
    if idle:
        their = "its confidence never changes" if len(idle) == 1 else "their confidence never changes"
        message = f"no task gives evidence for {names(each.name for each in idle)}: {their}"
        help_ = f"add to a task: `evidence: [{{hypothesis: {idle[0].name}, supports: exit_code == 0}}]`"
        yield Diagnostic("PLAN232", message, idle[0].span, help=help_)


def _too_early(view: PlanView) -> Iterator[Diagnostic]:
    """Reads of a hypothesis that may come before its evidence."""
    if "hypotheses." not in view.source.text and "hypotheses[" not in view.source.text:
        return
    told: set[tuple[int, str]] = set()
    given = [(at, weighed) for at, task in enumerate(view.plan.tasks) if (weighed := _weighs(task))]
    for here, name, place, span in _reads(view):
        task = view.plan.tasks[here]
        if (here, name) in told or comes_last(task):
            continue
        told.add((here, name))
        sources = [at for at, weighed in given if name in _OF_ALL or name in weighed]
        if _has_before(view, here, sources, place) or _around(view, name):
            continue
        if sources:
            yield _early(view, here, name, view.plan.tasks[sources[0]], span)


def _reads(view: PlanView) -> Iterator[tuple[int, str, Site | Text, Span]]:
    """The position of each task that reads of hypotheses, the name that it reads, and where."""
    for site in expressions_of(view):
        if site.key != "evidence" and any(path[0] == "hypotheses" for path in site.expression.paths):
            for path, start, end, _ in paths_in(site.expression.tree):
                if path[0] == "hypotheses" and len(path) > 1:
                    yield site.here, path[1], site, place_of(view, site, start, end)
    for text in texts_of(view):
        if text.here >= 0 and "hypotheses" in text.text:
            for path, start, end in references(text.text):
                if path[0] == "hypotheses" and len(path) > 1:
                    yield text.here, path[1], text, place_of(view, text, start, end)


def _is_about(task: Task, name: str) -> bool:
    weighed = _weighs(task)
    return bool(weighed) if name in _OF_ALL else name in weighed


def _has_before(view: PlanView, here: int, sources: list[int], place: Site | Text) -> bool:
    """Whether evidence comes before a read. A task sees its own once it has acted, and a loop that of its rounds."""
    if here in sources and place.moment in ("after", "rounds", "detect"):
        return True
    return any(view.graph.precedes([(at, here) for at in sources]))


def _around(view: PlanView, name: str) -> bool:
    """Whether evidence comes from around the list of tasks that the read is in, or from an earlier round of it."""
    for graph, container in view.around.places:
        tasks = graph.tasks
        if tasks[container].loop is not None and _is_about(tasks[container], name):
            return True
        if any(_precede(graph, at, container) for at, other in enumerate(tasks) if _is_about(other, name)):
            return True
    return False


def _precede(graph: Graph, one: int, other: int) -> bool:
    return one != other and graph.precedes([(one, other)])[0]


def _early(view: PlanView, here: int, name: str, source: Task, span: Span) -> Diagnostic:
    task = view.plan.tasks[here]
    what = f"`hypotheses.{name}`"
    if task is source:
        message = f"`{task.id}` reads {what} before it gives evidence"
        return Diagnostic("PLAN233", message, span, help="read it in a task that `needs` this one")
    message = f"`{task.id}` reads {what}, but no evidence is guaranteed to be available by then"
    labels = (Label(source.span, f"`{source.id}` gives evidence"),)
    return Diagnostic("PLAN233", message, span, labels=labels, help=f"add `{source.id}` to the needs of `{task.id}`")
