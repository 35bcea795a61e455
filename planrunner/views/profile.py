"""The profile of a run: what its time went to, its critical path, and the tasks that took most of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.views.documents import document
from planrunner.views.page.story import Piece, Story, place_of
from planrunner.views.page.timeline import critical_path_labels
from planrunner.views.terminal import Terminal, pad, plural, width

Json = Any

LONGEST = 10
"""Tasks that people are shown."""

PARTS = {
    "tasks": "tasks at work",
    "people": "gates",
    "waits": "retries and delays",
    "stopped": "stopped",
    "planrunner": "planrunner itself",
}
"""What the time of a run goes to, with its words for people. Where several apply at once the first one counts:
attempts and undos of tasks, gates that are open, waits for a retry or a delay, no process that acts on the run, and the
rest, which is planrunner itself."""

_KINDS = {"attempt": "tasks", "undo": "tasks", "gate": "people", "wait": "waits"}


class TaskTime(Struct):
    """The time of a task over all its rounds and items: seconds at work and seconds of waits and gates."""

    task: str
    attempts: int
    worked: float
    waited: float


class Profile(Struct):
    """What the ``seconds`` of a run went to, by the keys of ``PARTS``; the tasks of its critical path in order; every
    task that began, the one that worked longest first."""

    run_id: str
    plan: str
    is_over: bool
    seconds: float
    parts: dict[str, float]
    critical_path: tuple[str, ...]
    tasks: tuple[TaskTime, ...]


def profile(story: Story, run_id: str, now: float) -> Profile:
    """The profile of a run up to its end, or up to ``now`` where it goes on (seconds since 1970)."""
    state = story.state
    end = now if state.ended_at is None else max(story.last, story.began)
    parts = _parts(story, end)
    tasks = sorted(_tasks(story, end), key=lambda each: -each.worked)
    path = tuple(critical_path_labels(story))
    title = state.plan.title or state.plan.id
    return Profile(run_id, title, state.ended_at is not None, end - story.began, parts, path, tuple(tasks))


def profile_document(made: Profile) -> dict[str, Json]:
    """The profile for programs: times in seconds."""
    tasks = [each._asdict() for each in made.tasks]
    return document(**{**made._asdict(), "critical_path": [*made.critical_path], "tasks": tasks})


def profile_lines(terminal: Terminal, made: Profile) -> list[str]:
    """The profile for people: a line for each part, the critical path, the tasks that worked longest."""
    until = "from start to end" if made.is_over else "so far"
    lines = [terminal.paint(harmless(f"{made.plan} {made.run_id}: {duration_text(made.seconds)} {until}"), "bold")]
    parts = [(PARTS[name], seconds) for name, seconds in made.parts.items() if seconds]
    lines += _columns((name, duration_text(seconds), _share(seconds, made.seconds)) for name, seconds in parts)
    if len(made.critical_path) > 1:
        lines += [terminal.paint("critical path", "bold"), f"  {harmless(', '.join(_few(made.critical_path)))}"]
    if made.tasks:
        lines.append(terminal.paint("tasks", "bold"))
        lines += _columns(map(_task_row, made.tasks[:LONGEST]))
    if rest := made.tasks[LONGEST:]:
        lines.append(f"  and {plural(len(rest), 'other')}: {duration_text(sum(each.worked for each in rest))}")
    return lines


def _parts(story: Story, end: float) -> dict[str, float]:
    """The seconds of a run by what they went to: one pass over all that began or ended, in the order of time."""
    changes = sorted(
        change
        for what, began, ended in _intervals(story, end)
        for change in ((max(began, story.began), what, 1), (min(max(ended, story.began), end), what, -1))
    )
    parts, open_, before = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0), story.began
    open_["planrunner"] = 1
    for at, what, step in [*changes, (end, "planrunner", 0)]:
        parts[next(name for name in PARTS if open_[name])] += at - before
        open_[what] += step
        before = at
    return parts


def _intervals(story: Story, end: float) -> Iterator[tuple[str, float, float]]:
    for pieces in story.pieces.values():
        for piece in pieces:
            if piece.kind in _KINDS:
                yield _KINDS[piece.kind], piece.began, piece.began + piece.lasted(end)
    for began, ended in story.rests:
        yield "stopped", began, end if ended is None else ended


def _tasks(story: Story, end: float) -> Iterator[TaskTime]:
    by_place: dict[str, list[Piece]] = {}
    for path, pieces in story.pieces.items():
        by_place.setdefault(place_of(path), []).extend(piece for piece in pieces if piece.kind in _KINDS)
    for place, pieces in by_place.items():
        if pieces:
            times = [(_KINDS[piece.kind] == "tasks", piece.lasted(end)) for piece in pieces]
            worked, waited = (sum(took for works, took in times if works is kind) for kind in (True, False))
            yield TaskTime(place, sum(piece.kind == "attempt" for piece in pieces), worked, waited)


def _task_row(each: TaskTime) -> tuple[str, str, str]:
    waited = f"waited {duration_text(each.waited)}" if each.waited else ""
    attempts = plural(each.attempts, "attempt") if each.attempts > 1 else ""
    return each.task, duration_text(each.worked) if each.attempts else "", ", ".join(filter(None, (attempts, waited)))


def _few(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if len(names) <= 2 * LONGEST else (*names[:LONGEST], "…", *names[-LONGEST:])


def _share(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.0%}" if whole else ""


def _columns(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    shown = [(harmless(name), time, note) for name, time, note in rows]
    first = max((width(name) for name, _, _ in shown), default=0)
    second = max((width(time) for _, time, _ in shown), default=0)
    return [f"  {pad(name, first)}  {time:>{second}}  {note}".rstrip() for name, time, note in shown]
