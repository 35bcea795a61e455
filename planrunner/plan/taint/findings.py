"""Foreign text that becomes what it may not: from who wrote it, task by task, to where it would act."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from planrunner.plan.model import Capability, Gate, Plan, Task
from planrunner.plan.taint.flow import Flow, holes, read
from planrunner.plan.taint.levels import Cell, Key, Place, TaskScope, is_of_tools, meant
from planrunner.plan.taint.sinks import LOOKED_AT, Sink, sinks, votes
from planrunner.plan.taint.traits import USES, known, may_be_plan, may_run, row
from planrunner.records import Struct

Json = Any
Passed = Callable[[Key], bool]

_BY_PEOPLE = frozenset({"approval", "decision", "diff"})
_FILES = ("file", "files", "path")


def by_people(gate: Gate) -> bool:
    """Whether a person decides, whatever was checked before."""
    return gate.kind in _BY_PEOPLE or bool(gate.roles or gate.people or gate.options or gate.form)


def is_shown(cell: Cell, seen: frozenset[Cell]) -> bool:
    """Whether people saw a value, or all of which it is a part."""
    if not seen:
        return False
    whole = (cell._replace(path=cell.path[:length]) for length in range(len(cell.path) + 1))
    return any(each in seen for each in whole) or Cell(cell.kind, cell.at, "*") in seen


def shown(place: Place, passed: Passed | None = None) -> frozenset[Cell]:
    """The values that gates on the way to a task show. ``passed`` tells of a gate whether a person really let it
    through; without it every gate on the way counts."""
    cells: set[Cell] = set()
    for gate in _before(place):
        if passed is None or passed(gate.key):
            cells.update(_seen(gate))
    return frozenset(cells)


def call_shown(place: Place) -> bool:
    """Whether people see the very call before it starts, since a label of the task demands a gate."""
    task, level = place.task, place.level
    assert task is not None
    plans: list[Plan] = [level.plan]
    here: TaskScope | None = level
    while here is not None:
        plans.append(here.plan)
        here = here.outer
    gates = [gate for plan in plans for label, gate in plan.gated if label in task.labels]
    return any(by_people(gate) for gate in gates)


def _before(place: Place) -> Iterator[Place]:
    """The gates without which the task, or one that holds it, does not start."""
    level: TaskScope | None = place.level
    task: Task | None = place.task
    while level is not None and task is not None:
        yield from _needed(level, task)
        task, level = level.holder, level.outer


def _needed(level: TaskScope, task: Task) -> Iterator[Place]:
    waiting, seen = [task], {task.id}
    for here in waiting:
        for name in _certain(level, here):
            found = level.tasks.get(name)
            if found is not None and found.id not in seen:
                seen.add(found.id)
                waiting.append(found)
                if _stops(found):
                    yield Place(level, found)


def _certain(level: TaskScope, task: Task) -> tuple[str, ...]:
    """The tasks that have to end well before this one starts."""
    if task.needs:
        return task.needs if task.join.kind == "all" else ()
    edges = [(other.id, edge) for other in level.tasks.values() for edge in other.edges if edge.target == task.id]
    leading = [(name, edge) for name, edge in edges if not edge.rework]
    if len(leading) == 1 and leading[0][1].on == "success":
        return (leading[0][0],)
    return ()


def _stops(task: Task) -> bool:
    """Whether nothing behind a gate starts unless a person agreed."""
    gate = task.gate
    if gate is None or not by_people(gate) or task.when is not None or task.allow_failure:
        return False
    return not any(edge.recovers for edge in task.edges)


def _seen(place: Place) -> Iterator[Cell]:
    task = place.task
    assert task is not None and task.gate is not None
    yield from read(place, [task.gate.ask, task.gate.evidence, [option._asdict() for option in task.gate.options]])
    for option in task.gate.options:
        if option.each is not None:
            yield from (cell for path in option.each.paths for cell in meant(place, path))
    for name in _files(task.gate.evidence):
        yield Cell("file", (), posixpath.normpath(name))


def _files(evidence: Json) -> Iterator[str]:
    """The files that are shown, by name."""
    for item in evidence if isinstance(evidence, list) else [evidence]:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            given = [item[key] for key in _FILES if key in item]
            for each in given:
                yield from (str(name) for name in (each if isinstance(each, list) else [each]))


NOT_GRANTED = LOOKED_AT - {"option"} | {"rules", "approval"}
"""What a model does not choose by being given a tool: hosts beside those that a policy lists, paths that lead out, the
rules of the project. That it says what a shell runs is what the tool is for."""

FARTHEST = 6
"""Tasks of a way that are told."""


class TaintedFlow(Struct):
    """A value that would become something: ``way`` are the values it came through, the foreign one first."""

    sink: Sink
    way: tuple[Cell, ...]


def judged(
    flow: Flow, place: Place, part: str | None = None, passed: Callable[[Key], bool] | None = None
) -> Iterator[TaintedFlow]:
    """What of a task foreign text may not become, and may. ``part`` and ``passed`` as in ``sinks`` and ``shown``."""
    found = near(flow, place, part)
    if not found:
        return
    before, seen = shown(place, passed), call_shown(place)
    for sink in found:
        if sink.use not in NOT_GRANTED and is_of_tools(place.level):
            continue
        if seen and sink.key != "checks" and not sink.part:
            continue
        way = whence(flow, sink, before)
        if way:
            yield TaintedFlow(sink, way)


def near(flow: Flow, place: Place, part: str | None = None) -> tuple[Sink, ...]:
    """The places of a task that foreign text comes to, reviewed or not."""
    known = flow.near.get((place.key, part))
    if known is None:
        found = (*sinks(flow, place, part), *(() if part else votes(place)))
        known = tuple(sink for sink in found if whence(flow, sink, frozenset()))
        flow.near[place.key, part] = known
    return known


def written_code(flow: Flow, which: Callable[[str], bool] = may_run) -> dict[str, Sink]:
    """The files of code that the plan writes with foreign text, by name, reviewed before they run or not; or others,
    ``which`` tells by their names."""
    files = [Cell("file", (), name) for name in flow.files() if which(name) and not holes(name)]
    sinks = {file.name: Sink("script", "", "", "", file.name, file.name, (file,)) for file in files}
    return {name: sink for name, sink in sinks.items() if whence(flow, sink, frozenset())}


def whence(flow: Flow, sink: Sink, seen: frozenset[Cell]) -> tuple[Cell, ...]:
    """The shortest way from untrusted text to a place; empty without one that people did not
    look at."""
    way = _back(flow, sink.cells, lambda cell: is_shown(cell, seen) or _may_lead(sink, cell, flow))
    if not way:
        return ()
    while len(way) < FARTHEST:  # an answer was written by one who read another
        earlier = _earlier(flow, way)
        if not earlier:
            break
        way = (*earlier, *way)
    return way


def _earlier(flow: Flow, way: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The untrusted text that the writer of the first value of a way had been given."""
    if way[0].kind != "output":
        return ()
    passed = {cell.at for cell in way}
    found = _back(flow, (Cell("input", way[0].at, "*"),), lambda cell: cell.kind == "output" and cell.at in passed)
    return tuple(cell for cell in found if cell.kind == "output")


def _may_lead(sink: Sink, cell: Cell, flow: Flow) -> bool:
    """Whether a page may be read since a search or another page named it."""
    if sink.use != "page" or cell.kind != "output":
        return False
    task = flow.levels.task(cell.at).task
    return task is not None and task.uses.startswith("research.")


def _back(flow: Flow, cells: Iterable[Cell], stop: Callable[[Cell], bool]) -> tuple[Cell, ...]:
    before: dict[Cell, Cell | None] = {cell: None for cell in cells if not stop(cell)}
    waiting = list(before)
    for cell in waiting:
        step = flow.back(cell)
        if step.foreign:
            return tuple(_forward(before, cell))
        for earlier in step.cells:
            if earlier not in before and not stop(earlier):
                before[earlier] = cell
                waiting.append(earlier)
    return ()


def _forward(before: dict[Cell, Cell | None], cell: Cell | None) -> Iterator[Cell]:
    while cell is not None:
        yield cell
        cell = before[cell]


def told(flow: Flow, place: Place, found: TaintedFlow) -> str:
    """The way in words: ``page`` (http.get) → ``summary`` (llm.complete) → ``apply`` uses it as a command."""
    steps: dict[Key, str] = {}
    for cell in found.way:
        if cell.at and cell.at != place.key:
            steps.setdefault(cell.at, _named(flow, cell))
    if found.way[0].kind == "file" and (writer := flow.writer(found.way[0])):
        steps = {writer.at: _named(flow, writer), **steps}
    if not steps or found.way[0].kind == "told":
        steps = {("",): "what people wrote who sent the run back", **steps}
    if found.sink.cells and found.sink.cells[0].kind == "file":
        steps[("file",)] = f"`{found.sink.template}`"
    assert place.task is not None
    acts = f"`{place.task.id}` uses it as {USES.get(found.sink.use, found.sink.use)}"
    named = list(steps.values())
    if len(named) > FARTHEST:
        named = [*named[:2], "…", *named[3 - FARTHEST :]]
    return " → ".join([*named, acts])


def _named(flow: Flow, cell: Cell) -> str:
    task = flow.levels.task(cell.at).task
    assert task is not None
    kind = task.uses or ("gate" if task.gate is not None else "loop" if task.loop is not None else "subplan")
    kind = "foreach" if cell.kind == "item" else kind
    return f"`{task.id}` ({kind})"


def watched(plan: Plan, capabilities: Mapping[str, Capability | None]) -> dict[str, dict[str, Any]]:
    """What a run of a plan has to know of its capabilities, by name: empty where untrusted text reaches nothing that
    acts and no file of code or of a plan, reviewed or not. Where it does none is empty, so that the record says so."""
    rows = {name: row(found) for name, found in capabilities.items() if found is not None}
    flow = Flow(plan, {name: known(found) for name, found in rows.items()})
    for place in flow.levels.every():
        if near(flow, place):
            break
    else:
        if not (written_code(flow) or written_code(flow, may_be_plan)):
            return {}
    return {name: found or {"foreign": []} for name, found in rows.items()}
