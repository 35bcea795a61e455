"""The timeline of a run: a row for each place, a bar for each attempt, the waits between, and the critical path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from planrunner.machine.graph import Frame
from planrunner.machine.names import label
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.views.page.figures import count, duration
from planrunner.views.page.outline import Row
from planrunner.views.page.scale import Scale
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import Piece, Story, end_text, place_of

BARS = 60
"""Bars of a row at most; of more the last ones are drawn."""
BINS = 120
"""Steps of the picture of how many hidden tasks ran at once."""
HEIGHT = 22.0
"""The height of that picture, in pixels."""
_LEAST = 0.25
"""The width of a bar at least, in percent."""


class Bar(Struct):
    """A piece of a row: ``kind`` is that of the piece, ``x`` and ``width`` are percent, ``tone`` is the state that
    colours it, ``known`` the entry with which it began. ``cut`` marks one that failed, ``back`` one pushed back."""

    kind: str
    x: float
    width: float
    tone: str
    known: int
    cut: bool
    back: bool
    title: str


class Lane(Struct):
    """A row of the timeline. ``text`` stands behind the last bar, ``more`` where there is room; ``label`` says in words
    what the bars show. Without a place it is a line about what is hidden."""

    place: str
    name: str
    level: int
    sign: Sign
    bars: tuple[Bar, ...]
    text: str
    more: str
    text_x: float
    before: bool
    """Whether the text ends at its place, for want of room behind the last bar."""
    label: str
    density: str = ""
    """Of hidden tasks: how many ran at once, as the points of a polygon on 100 by ``HEIGHT``."""


def busy(story: Story, now: float) -> list[tuple[float, float]]:
    """The intervals in which something of a run was under way, each not longer than what ran."""
    return [
        (piece.began, now if piece.ended is None else piece.ended)
        for pieces in story.pieces.values()
        for piece in pieces
        if piece.kind in ("attempt", "undo")
    ]


def lanes(story: Story, rows: Iterable[Row], scale: Scale, now: float) -> list[Lane]:
    """The rows with their bars; ``now`` ends what still goes on."""
    return [_lane(story, row, scale, now) for row in rows]


def _lane(story: Story, row: Row, scale: Scale, now: float) -> Lane:
    state = story.state
    if not row.tasks:
        points, most = _density(story, row.hidden, scale, now)
        text = f"at most {most:,} at once" if most > 1 else ""
        label = f"{row.name}{f'; {text}' if text else ''}"
        return Lane("", row.name, row.level, task_sign("pending"), (), text, "", 0.0, False, label, points)
    sign = task_sign(story.statuses.get(row.place, "pending"))
    pieces = story.pieces_of(row.tasks)
    attempts = [piece for piece in pieces if piece.kind == "attempt"]
    bars = tuple(_bar(piece, scale, now) for piece in pieces[-BARS:])
    known = [piece for piece in attempts if piece.status != "in_doubt"]
    lasted = sum(piece.lasted(now) for piece in known)
    if attempts:
        text = duration(lasted) if known else ""
    else:
        text = duration(sum(piece.lasted(now) for piece in pieces if piece.kind == "span")) or ""
    more = f" · {count(len(attempts), 'attempt')}" if len(attempts) > 1 else ""
    text_x, before = _room(bars)
    gate = next((piece for piece in reversed(pieces) if piece.kind == "gate"), None)
    if gate is not None and not attempts:
        text, more = _gate_text(state, row.task), ""
    said = "; ".join(_said(piece, now) for piece in pieces[-8:]) or sign.word.lower()
    shown = text if pieces else ""
    return Lane(row.place, row.name, row.level, sign, bars, shown, more, text_x, before, f"{row.name}: {said}")


def _density(story: Story, numbers: Iterable[int], scale: Scale, now: float) -> tuple[str, int]:
    """How many attempts of some tasks ran at once, over the width of the timeline in ``BINS`` steps, each the most of
    its time; and the most of all."""
    pieces = [
        piece
        for number in numbers
        for piece in story.pieces.get(story.state.specs[number].id, ())
        if piece.kind == "attempt"
    ]
    if not pieces:
        return "", 0
    ends = [now if piece.ended is None else max(piece.ended, math.nextafter(piece.began, math.inf)) for piece in pieces]
    changes = [(moment, -1) for moment in ends] + [(piece.began, 1) for piece in pieces]
    changes.sort()  # at one moment what ends comes before what begins
    edges = [scale.moment(100 * at / BINS) for at in range(1, BINS)] + [math.inf]
    bins, place, running = [0] * BINS, 0, 0
    for moment, more in changes:
        while moment >= edges[place]:
            place += 1
            bins[place] = running
        running += more
        if running > bins[place]:
            bins[place] = running
    most = max(bins)
    width = 100 / BINS
    tops = [HEIGHT * (1 - each / most) for each in bins]
    steps = (f"{at * width:.1f},{y:.1f} {(at + 1) * width:.1f},{y:.1f}" for at, y in enumerate(tops))
    return f"0,{HEIGHT:.0f} {' '.join(steps)} 100,{HEIGHT:.0f}", most


def _room(bars: Sequence[Bar]) -> tuple[float, bool]:
    """Where the text of a row stands: behind the last bar, else before the last or the first one where there is
    room, else over the end; and whether it ends there."""
    end = max((bar.x + bar.width for bar in bars), default=0.0)
    if end <= 82:
        return end, False
    last = max(bars, key=lambda bar: bar.x)
    reached = max((bar.x + bar.width for bar in bars if bar is not last), default=0.0)
    if last.x - reached > 12:
        return last.x, True
    first = min(bar.x for bar in bars)
    return (first, True) if first > 12 else (100.0, True)


def _gate_text(state: State, number: int) -> str:
    gate = state.tasks[number].gate
    if gate is None or gate.need < 2:
        return ", ".join(gate.by) if gate is not None else ""
    return f"{len(gate.agreeing(''))} of {gate.need}" if not gate.decision else ", ".join(gate.by)


_TONES = {"attempt": "run", "undo": "undone", "gate": "gate", "wait": "wait", "span": "off"}


def _bar(piece: Piece, scale: Scale, now: float) -> Bar:
    x = scale.at(piece.began)
    width = max(_LEAST, round(scale.at(now if piece.ended is None else piece.ended) - x, 2))
    x = min(x, 100.0 - width)
    tone = _TONES[piece.kind]
    if piece.kind in ("attempt", "undo") and piece.status:
        tone = task_sign(piece.status).state
    failed = piece.status == "failed"
    title = _said(piece, now)
    return Bar(piece.kind, round(x, 2), width, tone, piece.seq, failed and width > 1, piece.status == "rejected", title)


def _said(piece: Piece, now: float) -> str:
    took = duration(piece.lasted(now))
    if piece.kind == "wait":
        return f"waited {took}"
    if piece.kind == "gate":
        return f"waited for people {took}" + (f", {piece.status}" if piece.status else "")
    if piece.kind == "span":
        return f"took {took}"
    what = "rollback" if piece.kind == "undo" else f"attempt {piece.number}"
    if piece.ended is None:
        return f"{what} runs for {took}"
    if piece.status == "in_doubt":  # its process ended with it: nothing knows when
        return f"{what} {end_text(piece)}"
    return f"{what} {end_text(piece)} after {took}"


def critical_path(story: Story) -> frozenset[tuple[str, str]]:
    """The edges that decided when the run ended, or is where it is: from the last task of each level back along the
    predecessor that ended last. Edges are pairs of places."""
    state, edges = story.state, set()
    todo: list[Frame] = [state.top]
    while todo:
        frame = todo.pop()
        number = _last(state, range(frame.first, frame.first + frame.size))
        while number >= 0:
            inner = state.tasks[number].inner
            if inner is not None and inner.kind != "items":
                todo.append(inner)
            earlier = _last(state, _before(state, number))
            if earlier >= 0:
                edges.add((place_of(state.specs[earlier].id), place_of(state.specs[number].id)))
            number = earlier
    return frozenset(edges)


def _before(state: State, number: int) -> Sequence[int]:
    """The tasks that one waited for; under ``finally`` those of the main part."""
    shape, frame = state.shape, state.tasks[number].frame
    before = [*shape.needs[number], *(route.source for route in shape.routes_in.get(number, ()))]
    if before or not state.specs[number].finally_:
        return before
    return [at for at in range(frame.first, frame.first + frame.size) if not state.specs[at].finally_]


def _last(state: State, numbers: Sequence[int]) -> int:
    """Of some tasks the one that ended last, one that still goes on before all others; -1 where none has begun."""
    begun = [number for number in numbers if _end(state, number) > 0]
    return max(begun, key=lambda number: _end(state, number), default=-1)


def _end(state: State, number: int) -> float:
    task = state.tasks[number]
    if task.started is None and task.ended is None and task.gate is None:
        return 0.0
    if task.status in ("skipped", "omitted", "cancelled") and task.started is None:
        return 0.0
    return float("inf") if task.ended is None else task.ended


def critical_path_labels(story: Story) -> list[str]:
    """The tasks of the critical path of the top level, the first one first."""
    state = story.state
    names: list[str] = []
    number = _last(state, range(state.top.first, state.top.first + state.top.size))
    while number >= 0:
        names.append(label(state, number))
        number = _last(state, _before(state, number))
    names.reverse()
    return names


def path_text(story: Story) -> str:
    """The critical path of the top level as names: ``checkout, test, package``; empty without one."""
    names = critical_path_labels(story)
    return ", ".join(names if len(names) <= 12 else [*names[:4], "…", *names[-6:]])
