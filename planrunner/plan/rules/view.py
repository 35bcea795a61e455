"""What every rule looks at: the plan, its graph, the text it came from and the capabilities there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.frozen import EMPTY
from planrunner.plan.agents import CHECK, Roster
from planrunner.plan.graph import Graph
from planrunner.plan.model import Capability, Fanout, Plan, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rights import Level
from planrunner.records import Struct
from planrunner.source import Source, Span
from planrunner.syntax.tree import Json

People = Mapping[str, tuple[str, ...]] | None


class Project(Struct):
    """What rules hold a plan to beside its text: the people of the project, the operator's levels of policy, and the
    ids of the credentials, each with the variable it comes from (empty: from elsewhere); None where not loaded."""

    people: People = None
    levels: tuple[Level, ...] = ()
    credentials: Mapping[str, str] | None = None
    directory: str = ""
    """Where the plan would run, as an absolute path; empty where it is not known."""
    refused: bool = False
    """Whether the schema has refused the plan, so that values may have any shape."""
    roster: Roster | None = None
    """The agents and tools of the project; None where they were not loaded."""
    hidden: tuple[str, ...] = ()
    """Variables that settings name for a secret of a capability or a service."""


_WORD = "A-Za-z0-9_*-"


class Container(Struct):
    """What stands around nested steps: what the nearest loop carries (None without one), the names that an item
    of a fan-out has, whether the run may be sent back there, and whether a timeout ends all of it."""

    carried: Mapping[str, Json] | None = None
    items: tuple[Fanout, ...] = ()
    reworked: bool = False
    bounded: bool = False
    places: tuple[tuple[Graph, int], ...] = ()
    """The graphs around, the nearest first, with the position of the container in each."""


class PlanView(Struct):
    """A plan as rules see it. ``positions`` tells where in ``plan.tasks`` an id stands; ``outer`` names the tasks
    around a nested list of steps, which its expressions may read as well."""

    plan: Plan
    graph: Graph
    source: Source
    capabilities: Mapping[str, Capability]
    positions: Mapping[str, int]
    outer: Mapping[str, Task] = EMPTY
    used: Mapping[str, Capability] = EMPTY
    """The capabilities that tasks name, looked up once each."""
    whole: bool = True
    """False for a list of steps and for one of the plan's ``subplans``."""
    around: Container = Container()
    """The containers around a nested list of steps."""
    people: People = None
    """The people of the project with their roles; None where it lists no people or they were not loaded."""
    levels: tuple[Level, ...] = ()
    """The operator's levels of policy."""
    credentials: Mapping[str, str] | None = None
    """The credentials of the project by id; None where they were not loaded."""
    hidden: tuple[str, ...] = ()
    """Variables that settings name for a secret of a capability or a service."""
    directory: str = ""
    """Where the plan would run; empty where it is not known."""
    refused: bool = False
    """Whether the schema has refused the plan."""
    judge: str = ""
    """The model of the project that judges criteria in plain words; empty where people do, or it is not known."""
    checked: str = ""
    """The task of an agent under whose ``until`` the one task of this view stands; empty for any other view."""


def view_of(plan: Plan, source: Source, capabilities: Mapping[str, Capability]) -> PlanView:
    graph = Graph(plan)
    names = {task.uses for task in plan.tasks if task.uses}
    used = {name: found for name in names if (found := capabilities.get(name)) is not None}
    return PlanView(plan, graph, source, capabilities, graph.index, {}, used)


def is_named_subplan(view: PlanView) -> bool:
    """Whether a view is one of the plan's ``subplans`` as a whole."""
    return not (view.whole or view.outer or view.around.places)


def inside(view: PlanView, task: Task) -> Container:
    """What stands around the steps inside a task of a view."""
    around = view.around
    if task.loop is not None and task.agent is None:
        carry = task.loop.carry
        around = around._replace(carried=carry if isinstance(carry, dict) else {})
    if task.fanout is not None:
        around = around._replace(items=(*around.items, task.fanout))
    return around._replace(
        reworked=around.reworked or sends_back(view.plan.tasks),
        bounded=around.bounded
        or task.timeout is not None
        or task.budgets.time is not None
        or any(each.name == "timeout" for each in task.computed),
        places=((view.graph, view.positions[task.id]), *around.places),
    )


def written(task: Task) -> tuple[Task, ...]:
    """The tasks of a loop that stand in the plan: of the rounds of an agent the check that ends them."""
    tasks = task.loop.tasks if task.loop is not None else ()
    if task.agent is None:
        return tasks
    return tuple(each._replace(needs=(), when=None) for each in tasks if each.id == CHECK)


def sent_back(task: Task) -> Iterator[tuple[str, int, Span]]:
    """Where a task may send the run back: the earlier task, how often at most (0: not said), the place."""
    for edge in task.edges:
        if edge.rework:
            yield edge.target, edge.max, edge.span
    if task.gate is not None and task.gate.on_reject.action == "rework":
        yield task.gate.on_reject.target, task.gate.on_reject.max, task.gate.on_reject.span


def sends_back(tasks: Iterable[Task]) -> bool:
    """Whether a gate or an edge of these tasks may send the run back to one of them."""
    return any(True for task in tasks if task.edges or task.gate is not None for _ in sent_back(task))


def every_task(tasks: Iterable[Task]) -> Iterator[Task]:
    """All tasks, those of loops and subplans included, those of a shared subplan once."""
    waiting = list(tasks)
    linked: set[int] = set()
    for task in waiting:
        yield task
        waiting += (*task.subplan, *(task.loop.tasks if task.loop is not None else ()))
        if task.sub is not None and id(task.sub) not in linked:
            linked.add(id(task.sub))
            waiting += task.sub.tasks


def meets_foreign(plan: Plan, capabilities: Mapping[str, Capability | None]) -> bool:
    """Whether anything of a plan, or of those it links, may give foreign text; most plans have none."""
    if _says_foreign(plan.policy):
        return True
    for task in every_task(plan.tasks):
        if task.gate is not None or task.command or _says_foreign(task.policy) or _may_ask(task.run):
            return True
        found = capabilities.get(task.uses) if task.uses else None
        if found is not None and found.foreign:
            return True
        if task.sub is not None and _says_foreign(task.sub.policy):
            return True
    return False


def _says_foreign(policy: Any) -> bool:
    return isinstance(policy, dict) and policy.get("foreign") is True


def _may_ask(run: Any) -> bool:
    """Whether a command may ask a server; the flow looks closer."""
    text = run if isinstance(run, str) else run[0] if run else ""
    return any(name in text for name in ("curl", "wget", "http", "xh", "aria2c", "lynx", "w3m", "gh", "glab"))


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


def plan_key(view: PlanView, key: str) -> Span:
    """The place of a key of the plan itself, which stands at the margin in both notations."""
    text = view.source.text
    at = 0 if text.startswith(key) else text.find(f"\n{key}") + 1
    return Span(at, at + len(key)) if text.startswith(key, at) else view.plan.span


def find_default(view: PlanView, word: str) -> Span | None:
    """The place of a name inside the ``defaults`` of the plan, None where it does not stand there."""
    span = plan_key(view, "defaults")
    if not view.source.text.startswith("defaults", span.start):
        return None
    return _search(view.source.text, word, Span(span.start, _indented_end(view.source.text, span.start)))


def find_text(view: PlanView, text: str, within: Span, number: int = 0) -> Span:
    """The place of the ``number``-th occurrence of ``text`` in a part of the plan, or the whole part."""
    at = within.start - 1
    for _ in range(number + 1):
        at = view.source.text.find(text, at + 1, within.end)
        if at < 0:
            return within
    return Span(at, at + len(text))


def _search(text: str, word: str, span: Span) -> Span | None:
    if not word:
        return None  # it stands everywhere
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


def label_of_no_task(view: PlanView, said: tuple[str, str, Span], label: str, labels: list[str]) -> Diagnostic:
    """The finding (``said``: code, message and place) about a label that none of the tasks has: the nearest of
    ``labels``, which they have, or which there are."""
    code, message, span = said
    close = nearest(label, labels)
    if close is None:
        return Diagnostic(
            code, message, span, help=f"the labels are {names(labels)}" if labels else "no task has `labels`"
        )
    written = view.source.text[span.start : span.end] == label
    fix = Fix(f"rename it to `{close}`", (Edit(span, close),), safe=False) if written else None
    return Diagnostic(code, f"{message}, did you mean `{close}`?", span, fix=fix)
