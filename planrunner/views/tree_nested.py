"""The rows of the tree of a run in which tasks hold others: their tasks stand below them, earlier rounds and attempts
are one line each, and of many tasks only those with something to tell are listed."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.machine.frame import Frame
from planrunner.machine.paths import frames
from planrunner.machine.state import State
from planrunner.views.nesting import counted, name_inside, round_text, words
from planrunner.views.rows import DULL, WHOLE, Row, hidden, is_idle, level_tasks
from planrunner.views.standing import shown_status

MANY = 12
"""Tasks of one level that are all listed, also in a run that is shown whole."""


MOST = 20
"""Tasks of one level that are listed though the run is not shown whole."""


class _Sight(NamedTuple):
    """What is shown of a run. ``frames`` are those that each task opened, ``notable`` the tasks with something to tell,
    or around one that has; ``whole`` shows all tasks, ``fold`` none that went well."""

    state: State
    frames: dict[int, list[Frame]]
    notable: set[int]
    whole: bool
    fold: bool


def rows(state: State, whole: bool) -> list[Row]:
    """The rows from the plan's own tasks down."""
    fold = not whole and len(state.specs) > WHOLE
    sight = _Sight(state, frames(state), _notable(state), whole, fold)
    tasks = level_tasks(state, state.top)
    found: list[Row] = []
    many = fold and len(tasks) > WHOLE
    left = [number for number in tasks if many and (number not in sight.notable or is_idle(state.tasks[number]))]
    for number in tasks if not left else [number for number in tasks if number not in set(left)]:
        found += _task(sight, number, 0)
    idle = sum(is_idle(state.tasks[number]) for number in left)
    return found + hidden(len(left) - idle, idle)


def _notable(state: State) -> set[int]:
    found: set[int] = set()
    for number, task in enumerate(state.tasks):
        never_begun = task.status == "cancelled" and task.frame.kind == "items" and not task.attempts
        if task.status not in DULL and not never_begun:
            while number >= 0 and number not in found:
                found.add(number)
                number = state.tasks[number].frame.owner
    return found


def _task(sight: _Sight, number: int, level: int) -> list[Row]:
    """A task, and below it what it holds."""
    found = [Row(level, number, name_inside(sight.state, number))]
    opened = sight.frames.get(number, [])
    last = sight.state.tasks[number].inner
    if not opened or (sight.fold and number not in sight.notable):
        return found
    for at, frame in enumerate(opened):
        if frame is last or sight.whole:
            found += _frame(sight, frame, level + 1, _heading(sight, opened, at))
        elif at >= len(opened) - MANY:
            text = f"{_heading(sight, opened, at)}  {counted(sight.state, frame)}"
            found.append(Row(level + 1, -1, text, "failed" if frame.failures else "completed"))
    return found


def _heading(sight: _Sight, opened: list[Frame], at: int) -> str:
    """What stands above the tasks of a frame; nothing above the only one of a task that is no loop."""
    attempts = 1 + sum(frame.round <= 1 for frame in opened[1:])
    attempt = 1 + sum(frame.round <= 1 for frame in opened[1 : at + 1])
    which = f"attempt {attempt}" if attempts > 1 else ""
    return ", ".join(part for part in (which, round_text(sight.state, opened[at])) if part)


def _frame(sight: _Sight, frame: Frame, level: int, heading: str) -> list[Row]:
    state = sight.state
    found: list[Row] = []
    if heading:
        going = frame.open or frame.finals_open
        around = shown_status(state, state.tasks[frame.owner])
        status = "failed" if frame.failing else around if going else "completed"
        found.append(Row(level, -1, heading, status))
        level += 1
    tasks = level_tasks(state, frame)
    few = sight.whole or (len(tasks) <= MANY and not sight.fold)
    listed = _listed(sight, tasks)
    left: dict[str, int] = {}
    for number in tasks:
        if few or number in listed:
            found += _task(sight, number, level)
        else:
            status = shown_status(state, state.tasks[number])
            left[status] = left.get(status, 0) + 1
    if left and len(found) > bool(heading):
        found.append(Row(level, -1, f"  {'  ' * level}others: {words(left)}"))
    return found


def _listed(sight: _Sight, numbers: list[int]) -> set[int]:
    """Those of the notable tasks that are listed: all of few, else what failed first, then what waits or runs."""
    notable = [number for number in numbers if number in sight.notable]
    if len(notable) > MOST:
        tasks = sight.state.tasks
        notable.sort(key=lambda number: _WORST.get(tasks[number].status, len(_WORST)))
    return set(notable[:MOST])


_WORST = {"failed": 0, "in_doubt": 1, "blocked": 2, "running": 3}
