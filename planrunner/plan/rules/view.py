"""What every rule looks at: the plan, its graph, the text it came from and the capabilities there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from planrunner.plan.graph import Graph
from planrunner.plan.model import Capability, Plan, Task
from planrunner.record import NamedTuple
from planrunner.source import Source, Span

_WORD = "A-Za-z0-9_*-"


class PlanView(NamedTuple):
    """A plan as rules see it. ``positions`` tells where in ``plan.tasks`` an id stands; ``outer`` names the tasks
    around a nested list of steps, which its expressions may read as well."""

    plan: Plan
    graph: Graph
    source: Source
    capabilities: Mapping[str, Capability]
    positions: Mapping[str, int]
    outer: Mapping[str, Task] = {}
    used: Mapping[str, Capability] = {}
    """The capabilities that tasks name, looked up once each."""


def view_of(plan: Plan, source: Source, capabilities: Mapping[str, Capability]) -> PlanView:
    graph = Graph(plan)
    names = {task.uses for task in plan.tasks if task.uses}
    used = {name: found for name in names if (found := capabilities.get(name)) is not None}
    return PlanView(plan, graph, source, capabilities, graph.index, {}, used)


def span_of(task: Task, *keys: str) -> Span:
    """The place of the first of ``keys`` that the task has, or of its id."""
    for wanted in keys:
        for key, span in task.spans:
            if key == wanted:
                return span
    return task.span


def has_key(task: Task, key: str) -> bool:
    return any(name == key for name, _ in task.spans)


def region_of(view: PlanView, task: Task, *keys: str) -> Span:
    """The text from a key of the task to the end of its value; spans of tasks cover the key alone."""
    span = span_of(task, *keys)
    end = _indented_end(view.source.text, span.start)
    starts = [other.start for _, other in task.spans if span.start < other.start < end]
    return Span(span.start, max(span.end, min(starts, default=end)))


def _indented_end(text: str, start: int) -> int:
    """Where the lines that belong to the key at ``start`` end: before the first later line that is not indented deeper,
    though a list may stand right below its key."""
    column = start - (text.rfind("\n", 0, start) + 1)
    at = text.find("\n", start)
    while at >= 0:
        line_end = text.find("\n", at + 1)
        line = text[at + 1 : line_end if line_end >= 0 else len(text)]
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= column and not (depth == column and line.lstrip().startswith("- ")):
            return at
        at = line_end
    return len(text)


def find_word(view: PlanView, task: Task, word: str, *keys: str) -> Span:
    """The place of a name inside the value of a key, or of the key where the name is not written out there."""
    span = region_of(view, task, *keys)
    found = _search(view.source.text, word, span)
    return found or span_of(task, *keys)


def find_text(view: PlanView, text: str, within: Span, number: int = 0) -> Span:
    """The place of the ``number``-th occurrence of ``text`` in a part of the plan, or the whole part."""
    at = within.start - 1
    for _ in range(number + 1):
        at = view.source.text.find(text, at + 1, within.end)
        if at < 0:
            return within
    return Span(at, at + len(text))


def _search(text: str, word: str, span: Span) -> Span | None:
    at = text.find(word, span.start, span.end)
    while at >= 0:
        end = at + len(word)
        if not re.match(f"[{_WORD}]", text[at - 1 : at]) and not re.match(f"[{_WORD}]", text[end : end + 1]):
            return Span(at, end)
        at = text.find(word, end, span.end)
    return None


def names(ids: Iterable[str], limit: int = 8) -> str:
    """Names for a message, in backticks; of many only the first few and how many more there are."""
    every = list(ids)
    shown = ", ".join(f"`{name}`" for name in every[:limit])
    return f"{shown} and {len(every) - limit} more" if len(every) > limit else shown
