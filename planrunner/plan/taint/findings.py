"""Foreign text that becomes what it may not: from who wrote it, task by task, to where it would act."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from planrunner.plan.taint.flow import Flow
from planrunner.plan.taint.known import USES, may_run
from planrunner.plan.taint.levels import Cell, Key, Place
from planrunner.plan.taint.reads import holes
from planrunner.plan.taint.shown import call_shown, is_shown, shown
from planrunner.plan.taint.sinks import Sink, sinks, votes

FARTHEST = 6
"""Tasks of a way that are told."""


class Found(NamedTuple):
    """A value that would become something: ``way`` are the values it came through, the foreign one first."""

    sink: Sink
    way: tuple[Cell, ...]


def judged(
    flow: Flow, place: Place, part: str | None = None, passed: Callable[[Key], bool] | None = None
) -> Iterator[Found]:
    """What of a task foreign text may not become, and may. ``part`` and ``passed`` as in ``sinks`` and ``shown``."""
    found = near(flow, place, part)
    if not found:
        return
    before, seen = shown(place, passed), call_shown(place)
    for sink in found:
        if seen and sink.key != "checks" and not sink.part:
            continue
        way = whence(flow, sink, before)
        if way:
            yield Found(sink, way)


def near(flow: Flow, place: Place, part: str | None = None) -> tuple[Sink, ...]:
    """The places of a task that foreign text comes to, whoever looks at it before."""
    known = flow.near.get((place.key, part))
    if known is None:
        found = (*sinks(flow, place, part), *(() if part else votes(place)))
        known = tuple(sink for sink in found if whence(flow, sink, frozenset()))
        flow.near[place.key, part] = known
    return known


def written_code(flow: Flow) -> dict[str, Sink]:
    """The files of code that the plan writes with foreign text, by name, whoever looks at them before they run."""
    files = [Cell("file", (), name) for name in flow.files() if may_run(name) and not holes(name)]
    sinks = {file.name: Sink("script", "", "", "", file.name, file.name, (file,)) for file in files}
    return {name: sink for name, sink in sinks.items() if whence(flow, sink, frozenset())}


def whence(flow: Flow, sink: Sink, seen: frozenset[Cell]) -> tuple[Cell, ...]:
    """The shortest way from what somebody outside wrote to a place; empty where there is none that people did not
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
    """The foreign text that whoever wrote the first value of a way had been given."""
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


def told(flow: Flow, place: Place, found: Found) -> str:
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
