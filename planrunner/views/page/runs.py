"""The list of runs: a line for each, its track of cells, and what a filter of words means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from planrunner.escapes import harmless
from planrunner.machine.questions import Question
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.views.page.figures import count, duration, moment
from planrunner.views.page.signs import Sign, counted, run_sign, task_sign

Json = Any

WIDTH = 150.0
"""Units of a track from its left to its right."""
_GAP = 2.0
_DONE = ("completed", "skipped", "omitted", "failed", "cancelled", "abandoned", "rolled_back")
STATUSES = {
    "waiting": ("blocked",),
    "running": ("running",),
    "paused": ("paused",),
    "failed": ("failed",),
    "succeeded": ("completed",),
    "completed": ("completed",),
    "blocked": ("blocked",),
    "cancelled": ("cancelled",),
    "open": ("running", "blocked", "paused"),
    "doubt": (),
}
"""What ``status:WORD`` of a filter asks for; ``doubt`` are runs of any status with a task in doubt."""


class CellOf(Protocol):
    """A cell of a track: the status of a task, or of so many ``tasks``."""

    @property
    def status(self) -> str: ...
    @property
    def tasks(self) -> int: ...
    @property
    def name(self) -> str: ...


class Summarised(Protocol):
    """A run as lists show it: ``Summary`` of ``app/follow``."""

    @property
    def run(self) -> str: ...
    @property
    def plan_id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def created(self) -> float: ...
    @property
    def ended(self) -> float | None: ...
    @property
    def started_by(self) -> str: ...
    @property
    def counts(self) -> dict[str, int]: ...
    @property
    def track(self) -> Sequence[CellOf]: ...
    @property
    def questions(self) -> Sequence[Question]: ...
    @property
    def decided(self) -> Sequence[tuple[str, str]]: ...
    @property
    def failed(self) -> tuple[str, str]: ...
    @property
    def due(self) -> float | None: ...
    @property
    def problem(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Shape(Struct):
    """A cell of a track as it is drawn: a rectangle, or a ``path`` over it. ``state`` gives the colour."""

    state: str
    x: str
    width: str
    y: str
    height: str
    path: str = ""
    cross: str = ""


class RunLine(Struct):
    """A run of the list. ``subject`` is what it is about at the moment, set off from ``now``; ``find`` are the words
    that a filter on the page looks in."""

    run: str
    short: str
    title: str
    plan: str
    by: str
    sign: Sign
    track: tuple[Shape, ...]
    track_label: str
    subject: str
    now: str
    lasted: str
    created: float
    find: str


class Filter(Struct):
    """What the words of a filter mean. ``problem`` says which of them means nothing."""

    status: tuple[str, ...] = ()
    plan: str = ""
    by: str = ""
    text: str = ""
    problem: str = ""
    doubt: bool = False
    """A task is in doubt."""


def read_filter(query: str) -> Filter:
    """``status:failed plan:release by:ana word``: what does not have a known key is looked for as text."""
    status: list[str] = []
    named = {"plan": "", "by": ""}
    text: list[str] = []
    problem, doubt = "", False
    for word in query.split():
        key, colon, value = word.partition(":")
        if colon and key == "status":
            doubt = doubt or value == "doubt"
            if value not in STATUSES:
                near = nearest(value, STATUSES)
                problem = f"no run has the status `{value}`" + (f"; did you mean `{near}`?" if near else "")
            status += STATUSES.get(value, ())
        elif colon and key in named:
            named[key] = value
        else:
            text.append(word)
    return Filter(tuple(dict.fromkeys(status)), named["plan"], named["by"], " ".join(text), problem, doubt)


def run_line(run: Summarised, now: float) -> RunLine:
    """A run of the list at a moment (seconds since 1970)."""
    subject, text = _now(run, now)
    sign = run_sign(run.status, "decided" if run.decided and not run.questions else run.reason)
    if run.questions and run.questions[0].kind == "doubt":
        sign = task_sign("in_doubt")
    lasted = (run.ended or now) - run.created if run.ended is not None or run.status == "running" else None
    title = run.title or run.plan_id
    find = " ".join((run.run, title, run.plan_id, sign.word, run.status, run.started_by, subject, text)).lower()
    return RunLine(
        run.run,
        run.run[-11:] if len(run.run) > 12 else run.run,
        harmless(title),
        harmless(run.plan_id),
        harmless(run.started_by),
        sign,
        tuple(shapes(run.track)),
        _track_label(run),
        harmless(subject),
        harmless(text),
        duration(lasted),
        run.created,
        harmless(find),
    )


def _now(run: Summarised, now: float) -> tuple[str, str]:
    """What the run is about at the moment: a task, and a few words."""
    if run.problem:
        return "", run.problem
    if run.questions:
        first, *others = run.questions
        more = f" (and {count(len(others), 'more question')})" if others else ""
        return first.name, f"{first.ask or 'waits for a decision'}{more}"
    if run.decided:
        task, words = run.decided[0]
        return task, f"{words}; the run has yet to continue"
    if run.status == "failed" and run.failed[0]:
        return run.failed
    if run.status == "running":
        names = [cell.name for cell in run.track if cell.status == "running" and cell.name]
        return ", ".join(names[:3]), f"{_done(run)} of {count(sum(run.counts.values()), 'task')} done"
    if run.status == "paused" and run.due is not None:
        return "", f"continues at {moment(run.due, now)}"
    if run.status in ("paused", "cancelled"):
        said = run.reason in (run.status, "rolled_back")  # by its sign
        return "", run.detail or ("" if said else run.reason) or counted(run.counts)
    return "", counted(run.counts)


def _done(run: Summarised) -> int:
    return sum(run.counts.get(status, 0) for status in _DONE)


def _track_label(run: Summarised) -> str:
    return f"{_done(run)} of {count(sum(run.counts.values()), 'task')} settled: {counted(run.counts)}"


def shapes(cells: Iterable[CellOf]) -> Iterable[Shape]:
    """The cells of a track side by side. Settled cells are full, running ones half, open ones low, those that did not
    run hollow; a gate is a diamond, a failure bears a cross."""
    every = list(cells)
    units = sum(cell.tasks for cell in every)
    if not units:
        return
    gap = _GAP if len(every) <= 42 else 0.5
    unit = (WIDTH - gap * (len(every) - 1)) / units
    x = 0.0
    for cell in every:
        width = max(0.6, unit * cell.tasks)
        yield _shape(cell.status, x, width)
        x += width + gap


def _shape(status: str, x: float, width: float) -> Shape:
    state = "gate" if status in ("gate", "blocked") else task_sign(status).state
    if status == "gate":
        middle, half = x + width / 2, min(7.0, max(3.5, width / 2 + 2))
        path = f"M{middle:.1f} {8 - half:.1f}l{half:.1f} {half:.1f}-{half:.1f} {half:.1f}-{half:.1f}-{half:.1f}z"
        return Shape(state, f"{x:.1f}", f"{width:.1f}", "1", "14", path)
    if state in ("off", "undone"):
        return Shape(
            state,
            f"{x + 0.6:.1f}",
            f"{max(0.4, width - 1.2):.1f}",
            "9.6" if state == "off" else "1.6",
            "4.8" if state == "off" else "12.8",
        )
    if state in ("todo",):
        return Shape(state, f"{x:.1f}", f"{width:.1f}", "11", "4")
    if state == "run":
        return Shape(state, f"{x:.1f}", f"{width:.1f}", "6", "9")
    middle = x + width / 2
    cross = f"M{middle - 2:.1f} 6l4 4m0-4l-4 4" if state == "bad" and width >= 4 else ""
    return Shape(state, f"{x:.1f}", f"{width:.1f}", "1", "14", cross=cross)
