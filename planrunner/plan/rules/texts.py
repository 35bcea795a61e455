"""What a view holds: its expressions and its texts with templates, each with the names it may use and its place in the
source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from planrunner.plan.expressions.tree import children, path_of
from planrunner.plan.keys import PLAN, TASK, Moment
from planrunner.plan.model import Artifact, Criterion, Expression, Gate, Output, Task
from planrunner.plan.rules.view import PlanView, find_text, region_of, span_of
from planrunner.plan.templated import is_template, templates
from planrunner.plan.templates import references
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.scalars import BadEscape, unquote

_COPES = r"\|\s*(?:default|d)\b|\b(?:default|d|exists)\s*\(|\bis\s+(?:not\s+)?defined\b|\bif\b"
"""A template that says what to write where a value is missing."""

_TASKS = r"tasks\s*[.\[]"
_BOUND = r"->\s*([A-Za-z_][A-Za-z0-9_]*)"


class Site(Struct):
    """An expression of the task at position ``here``; ``key`` is the key of the task that holds it."""

    here: int
    key: str
    moment: Moment
    expression: Expression


class Text(Struct):
    """A text with a template; ``here`` is -1 for the plan's own. ``script`` marks shell text, ``outside`` a text that
    stands in the plan, not in the task that reads it."""

    here: int
    key: str
    moment: Moment
    text: str
    script: bool = False
    outside: bool = False


_MOMENTS: dict[str, Moment] = {row.name: row.moment for row in (*PLAN.keys, *TASK.keys)}


def _site(here: int, key: str, expression: Expression) -> Site:
    return Site(here, key, _MOMENTS[key], expression)


def expressions_of(view: PlanView) -> Iterator[Site]:
    """Every expression of the tasks of one view."""
    for here, task in enumerate(view.plan.tasks):
        if task.when is not None:
            yield _site(here, "when", task.when)
        for setting in task.computed:
            yield _site(here, setting.name.partition(".")[0], setting.expression)
        if task.join.expression is not None:
            yield _site(here, "join", task.join.expression)
        if task.expect:
            yield from _criteria(here, "done" if task.concluding else "expect", task.expect)
        if task.edges:
            for edge in task.edges:
                if edge.condition is not None:
                    yield _site(here, "next", edge.condition)
        if task.preconditions:
            yield from _criteria(here, "preconditions", task.preconditions)
        if task.postconditions:
            yield from _criteria(here, "postconditions", task.postconditions)
        for evidence in task.evidence:
            for condition in (evidence.supports, evidence.refutes):
                if condition is not None:
                    yield _site(here, "evidence", condition)
        if task.gate is not None:
            yield from _criteria(here, "checks", task.gate.checks)
            if task.gate.choose is not None:
                yield _site(here, "choose", task.gate.choose)
            for option in task.gate.options:
                if option.each is not None:
                    yield _site(here, "options", option.each)
        for mode in task.failure_modes:
            if mode.detect is not None and mode.detect.expression is not None:
                yield _site(here, "failure_modes", mode.detect.expression)
        if task.fanout is not None:
            if task.fanout.foreach is not None:
                yield _site(here, "foreach", task.fanout.foreach)
            for axis in task.fanout.axes:
                if axis.expression is not None:
                    yield _site(here, "matrix", axis.expression)
        if task.fresh is not None and task.fresh.condition is not None:
            yield _site(here, "fresh", task.fresh.condition)
        until = _until(task)
        if until is not None:
            yield _site(here, "until" if task.agent is not None else "loop", until)
        for hook in task.agent.calls if task.agent is not None else ():
            if hook.when is not None:
                yield _site(here, "calls", hook.when)
    for here, gate in _demanded(view):
        yield from _criteria(here, "checks", gate.checks)


def _until(task: Task) -> Expression | None:
    """When a task that goes round by round ends, as its author says it."""
    if task.agent is not None:
        return task.agent.until
    return task.loop.until if task.loop is not None else None


def _demanded(view: PlanView) -> Iterator[tuple[int, Gate]]:
    """The gates that labels demand, each with the first task that it stands before."""
    for label, gate in view.plan.gated:
        here = next((here for here, task in enumerate(view.plan.tasks) if label in task.labels), -1)
        if here >= 0:
            yield here, gate


def _criteria(here: int, key: str, criteria: Iterable[Criterion]) -> Iterator[Site]:
    for criterion in criteria:
        if criterion.expression is not None:
            yield _site(here, key, criterion.expression)


def bound_names(task: Task) -> tuple[str, ...]:
    """The names that a command binds: ``search(query) -> top10`` binds ``top10``."""
    return tuple(re.findall(_BOUND, task.command)) if "->" in task.command else ()


def has_templates(view: PlanView) -> bool:
    """Whether any text of the plan may be filled in: one with a template, also in a file of instructions, or a command,
    whose names become some."""
    return any(sign in view.source.text for sign in ("command", "file:")) or is_template(view.source.text)


def texts_of(view: PlanView) -> Iterator[Text]:
    """Every text with a template that is filled in at some time; of a plan without templates nothing is looked at."""
    if not has_templates(view):
        return
    if not view.outer:
        yield from _plan_texts(view)
    for here, task in enumerate(view.plan.tasks):
        if task.run is not None:
            yield from _run(here, task.run)
        if task.inputs:
            yield from _texts(here, "with", task.inputs)
        for _, value in task.env:
            yield from _texts(here, "env", value)
        for key, value in (("cwd", task.cwd), ("stdin", task.stdin), ("ready", task.ready)):
            if value:
                yield from _texts(here, key, value)
        if task.agent is not None:
            yield from _texts(here, "prompt", task.agent.prompt)
            yield from _texts(here, "calls", [hook.text for hook in task.agent.calls], "before")
        elif task.outputs or task.artifacts:
            held = task.loop is not None or bool(task.subplan)
            yield from _results(here, task.outputs, task.artifacts, "rounds" if held else "after")
        rare = (task.loop, task.fanout, task.sub, task.fresh)
        if task.agent is None and (task.backup or any(each is not None for each in rare)):
            yield from _rare(here, task)
        if task.gate is not None:
            yield from _question(here, task.gate)
        if task.command:
            yield from _texts(here, "command", task.command, "rounds" if task.subplan else "before")
        if task.rollback is not None:
            yield from _texts(here, "rollback", [task.rollback.inputs, task.rollback.run])
    for here, gate in _demanded(view):
        yield from _question(here, gate, outside=True)


def _texts(here: int, key: str, value: Any, moment: Moment = "") -> Iterator[Text]:
    """The texts with templates in the value of a key, at the moment of the key where no other is given."""
    for text in templates(value):
        yield Text(here, key, moment or _MOMENTS[key], text)


def questions(gate: Gate) -> tuple[tuple[str, Any], ...]:
    """What people are shown of a gate, by its key."""
    return (("ask", gate.ask), ("options", gate.options), ("form", gate.form), ("evidence", gate.evidence))


def _question(here: int, gate: Gate, outside: bool = False) -> Iterator[Text]:
    for key, value in questions(gate):
        for text in templates(value):
            yield Text(here, key, "checks", text, outside=outside)


def _run(here: int, run: str | tuple[str, ...]) -> Iterator[Text]:
    if isinstance(run, str):
        if is_template(run):
            yield Text(here, "run", "before", run, script=True)
        return
    for part in run:
        if is_template(part):
            yield Text(here, "run", "before", part)


def _rare(here: int, task: Task) -> Iterator[Text]:
    """The texts of keys that few tasks have."""
    yield from _texts(here, "params", task.params)
    yield from _texts(here, "backup", task.backup)
    if task.fresh is not None:
        yield from _texts(here, "fresh", [task.fresh.inputs, task.fresh.outputs], "before")
    if task.loop is not None:
        yield from _texts(here, "loop", task.loop.carry)
    if task.fanout is not None:
        yield from _texts(here, "foreach", task.fanout.items)
        yield from _texts(here, "matrix", _listed(task.fanout.matrix))


def _listed(matrix: Any) -> list[Any]:
    """What a matrix lists: the items of its axes, and the combinations to add and to leave out. An axis that is a text
    is an expression."""
    return [each for each in matrix.values() if isinstance(each, list)] if isinstance(matrix, dict) else []


def _results(
    here: int, outputs: Iterable[Output], artifacts: Iterable[Artifact], moment: Moment = "after"
) -> Iterator[Text]:
    paths: Moment = "before" if here >= 0 else "after"  # those of a task are filled in when it is called
    for output in outputs:
        for text in templates(output.value):
            yield Text(here, "outputs", moment, text)
        for text in templates(output.path):
            yield Text(here, "outputs", paths, text)
    for artifact in artifacts:
        for text in templates(artifact.path):
            yield Text(here, "artifacts", paths, text)


def _plan_texts(view: PlanView) -> Iterator[Text]:
    for _, value in view.plan.env:
        if is_template(value):
            yield Text(-1, "env", "before", value)
    yield from _results(-1, view.plan.outputs, view.plan.artifacts)


_PLAIN = r"\{\{\s*((?!(?:not|true|false|none)\b)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\}\}"
"""A template that is nothing but a dotted name: most of them are, and they need no parser."""

Reference = tuple[tuple[str, ...], int, int]
"""A path that a template reads, with its offsets in the text."""


def plain_references(text: str) -> list[Reference] | None:
    """The reads of a text whose templates are all plain names, which cannot be wrong but in the name; else None."""
    references: list[Reference] = []
    for match in re.finditer(_PLAIN, text):
        path = tuple(match[1].split("."))
        references.append((path, match.start(1), match.end(1)))
    return references if len(references) == text.count("{{") and "{%" not in text else None


class Read(Struct):
    """A path that something reads, at ``start`` to ``end`` of a text; ``optional``: a missing value is allowed."""

    here: int
    moment: Moment
    path: tuple[str, ...]
    place: Site | Text
    start: int
    end: int
    optional: bool = False


def reads_of(view: PlanView) -> Iterator[Read]:
    """Every read of another task's result, in expressions and in templates; results of needs do not count."""
    if not re.search(_TASKS, view.source.text):
        return
    for site in expressions_of(view):
        if site.moment != "results" and any(path[0] == "tasks" for path in site.expression.paths):
            for path, start, end, optional in paths_in(site.expression.tree):
                if path[0] == "tasks":
                    yield Read(site.here, site.moment, path, site, start, end, optional)
    for text in texts_of(view):
        if "tasks" in text.text:
            optional = re.search(_COPES, text.text) is not None
            for path, start, end in references(text.text):
                if path[0] == "tasks":
                    yield Read(text.here, text.moment, path, text, start, end, optional)


def paths_in(tree: Any) -> Iterator[tuple[tuple[str, ...], int, int, bool]]:
    """The paths of a tree with their offsets, and whether each stands inside ``default`` or ``exists``."""
    waiting = [(tree, False)]
    while waiting:
        node, optional = waiting.pop()
        path = path_of(node)
        if path is not None:
            yield path, node[1], node[2], optional
            continue
        guarded = optional or (node[0] == "call" and node[3] in ("default", "exists"))
        waiting.extend((child, guarded) for child in reversed(children(node)))


def place_of(view: PlanView, place: Site | Text, start: int, end: int) -> Span:
    """The place in the file of a part of an expression or a text."""
    if isinstance(place, Site):
        return _place_in(view, place.expression.text, place.expression.span, start, end)
    if place.here < 0 or place.outside:
        region = Span(0, len(view.source.text))
    else:
        region = region_of(view, view.plan.tasks[place.here], place.key)
    return _place_in(view, place.text, region, start, end)


def _place_in(view: PlanView, text: str, within: Span, start: int, end: int) -> Span:
    """Where a part of a text stands: exactly where the text stands as it is, line by line where it is indented.

    A text with escapes does not stand anywhere as it is; then the part itself is looked for, and failing that the whole
    place is given.
    """
    source = view.source.text
    at = within.start if source.startswith(text, within.start) else source.find(text, within.start, within.end)
    if at >= 0:
        return Span(at + start, at + max(end, start + 1))
    quoted = _in_quotes(source, within, text, start, end)
    if quoted is not None:
        return quoted
    first = text.rfind("\n", 0, start) + 1
    line = text[first : _end_of_line(text, first)]
    at = _line_of(source, within, line, text[:first].splitlines()) if end <= first + len(line) else -1
    if at >= 0:
        offset = start - first - (len(line) - len(line.lstrip()))
        return Span(at + offset, at + offset + max(end - start, 1))
    part = text[start:end].strip()
    return find_text(view, part, within, text.count(part, 0, start)) if part else within


_QUOTES = r"\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\n]|'')*'"
_CHARACTER = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|."


def _in_quotes(source: str, within: Span, text: str, start: int, end: int) -> Span | None:
    """Where a part of a text stands that is quoted with escapes in one line; None where no such text stands there."""
    for found in re.compile(_QUOTES).finditer(source, within.start, within.end):
        quote, inner = found[0][0], found[0][1:-1]
        each = list(re.finditer(_CHARACTER if quote == '"' else "''|.", inner))
        try:
            said = [unquote(quote + match[0] + quote) for match in each]
        except BadEscape:
            continue
        at = "".join(said).find(text)
        if at < 0 or max(map(len, said), default=0) != 1:
            continue
        first = found.start() + 1
        last = max(end, start + 1) - 1
        return Span(first + each[at + start].start(), first + each[at + last].end())
    return None


def _line_of(source: str, within: Span, line: str, before: list[str]) -> int:
    """Where a line of an indented text begins in the file, behind its indentation; -1 where no line is like it."""
    wanted = line.strip()
    left = sum(other.strip() == wanted for other in before)
    at = within.start
    while wanted and at < within.end:
        end = _end_of_line(source, at)
        if source[at:end].strip() == wanted:
            if not left:
                return source.index(wanted, at)
            left -= 1
        at = end + 1
    return -1


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


class Within(Struct):
    """Data that stands under a key of a task."""

    task: Task
    key: str
    data: Any


def value_place(view: PlanView, whole: Within, path: tuple[str | int, ...], key: bool = False) -> tuple[Span, bool]:
    """The place of a value inside data of a task, or of the last key that leads to it; whether a word stands there and
    nothing else. With ``key`` the last name of the path itself is meant."""
    source, within = view.source.text, region_of(view, whole.task, whole.key)
    value = whole.data
    before: list[Any] = []
    found = span_of(whole.task, whole.key, "uses")
    for number, name in enumerate(path):
        around, value = value, value[name]
        if isinstance(name, int):
            before = around[:name]
            continue
        sign = re.compile(rf"(?<![\w.-])[\"']?({re.escape(name)})[\"']?\s*[:=][ \t]*")
        passed = sum(isinstance(each, dict) and name in each for each in before)  # by the items of a list before this
        match = next(islice(sign.finditer(source, within.start, within.end), passed, None), None)
        if match is None:
            break
        before = []
        found, within = Span(*match.span(1)), Span(match.end(), within.end)
        if key and number == len(path) - 1:
            return found, True
    if isinstance(value, str) and (at := source.find(value, within.start, within.end)) >= 0 and value:
        return Span(at, at + len(value)), True
    if isinstance(value, (list, dict)) and source[within.start : within.start + 1] in ("[", "{"):
        return Span(within.start, _closed(source, within)), False
    plain = re.compile(r"[^\s,\[\]{}()]+").match(source, within.start, within.end)
    return (Span(*plain.span()), False) if plain and not isinstance(value, (list, dict)) else (found, False)


def _closed(source: str, within: Span) -> int:
    """Where the brackets that open at the start of a place are closed, or the end of the line."""
    depth = 0
    for at in range(within.start, _end_of_line(source, within.start)):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(source[at], 0)
        if not depth:
            return at + 1
    return _end_of_line(source, within.start)
