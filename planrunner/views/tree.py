"""A run as an indented tree of its tasks with their statuses: the picture that ``exec`` leaves and ``show`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from planrunner.escapes import harmless
from planrunner.machine.compensation import undone_containers
from planrunner.machine.explain import refused
from planrunner.machine.graph import Frame
from planrunner.machine.names import counts, frames, labelled
from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.statuses import status_word
from planrunner.views.containers import end_text, is_of_calls, name_inside, progress_text, round_text
from planrunner.views.graph import outlined
from planrunner.views.run import reason_text
from planrunner.views.status import attempt_text, counts_text, elapsed, is_resting, shown_status
from planrunner.views.terminal import Terminal, cut, pad, width

WHOLE = 60
"""A run of up to that many tasks is shown whole; in a larger one, completed and untouched tasks are only counted."""

DULL = frozenset({"completed", "pending", "omitted", "skipped"})
TROUBLE = ("failed", "in_doubt", "blocked")


class Row(Struct):
    """A line: a task by its number, how deep it stands and what it is called there; or a line of text (-1) with a
    status."""

    level: int
    task: int
    name: str
    status: str = ""


def is_idle(task_state: TaskState) -> bool:
    """Whether a failure, a stop or an edge kept a task from starting; a person who cancels a task gives another
    reason."""
    if task_state.attempts:
        return False
    return task_state.status == "omitted" or (task_state.status == "cancelled" and task_state.reason == "stopped")


def hidden(dull: int, idle: int = 0) -> list[Row]:
    """Lines for what is not listed: ``dull`` tasks with nothing to show, and ``idle`` ones that did not start."""
    rows = [Row(0, -1, f"  {idle:,} not started")] if idle else []
    return rows + ([Row(0, -1, f"  {dull:,} uneventful {'task' if dull == 1 else 'tasks'} hidden")] if dull else [])


def level_tasks(state: State, frame: Frame) -> list[int]:
    """The tasks of one frame by their numbers in the run, each after those it needs. They stand on one level: only what
    a task holds is indented."""
    first, shape = frame.first, state.shape
    numbers = range(first, first + frame.size)
    if frame.kind == "items":
        return list(numbers)
    needs = [[need - first for need in shape.needs[number]] for number in numbers]
    routed: Sequence[Sequence[int]] = [
        [route.source - first for route in shape.routes_in.get(number, ())] for number in numbers
    ]
    return [line.task + first for line in outlined(needs, routed)]


MANY = 12
"""Tasks of one level that are all listed, also in a run that is shown whole."""


MOST = 20
"""Tasks of one level that are listed though the run is not shown whole."""


class _Drawing(Struct):
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
    drawing = _Drawing(state, frames(state), _notable(state), whole, fold)
    tasks = level_tasks(state, state.top)
    lines: list[Row] = []
    many = fold and len(tasks) > WHOLE
    left = [number for number in tasks if many and (number not in drawing.notable or is_idle(state.tasks[number]))]
    for number in tasks if not left else [number for number in tasks if number not in set(left)]:
        lines += _task(drawing, number, 0)
    idle = sum(is_idle(state.tasks[number]) for number in left)
    return lines + hidden(len(left) - idle, idle)


def _notable(state: State) -> set[int]:
    notable: set[int] = set()
    for number, task in enumerate(state.tasks):
        never_begun = task.status == "cancelled" and task.frame.kind == "items" and not task.attempts
        if (task.status not in DULL and not never_begun) or refused(state, number):
            while number >= 0 and number not in notable:
                notable.add(number)
                number = state.tasks[number].frame.owner
    return notable


def _task(drawing: _Drawing, number: int, level: int) -> list[Row]:
    """A task, and below it what it holds."""
    opened = drawing.frames.get(number, [])
    if is_of_calls(drawing.state, number):
        return _frame(drawing, opened[-1], level, "") if opened else []
    rows = [Row(level, number, name_inside(drawing.state, number))]
    last = drawing.state.tasks[number].inner
    if not opened or (drawing.fold and number not in drawing.notable):
        return rows
    for at, frame in enumerate(opened):
        if frame is last or drawing.whole:
            rows += _frame(drawing, frame, level + 1, _heading(drawing, opened, at))
        elif at >= len(opened) - MANY:
            told = counts(drawing.state, frame)
            text = f"{_heading(drawing, opened, at) or 'earlier visit'}  {counts_text(told)}"
            well = "rolled_back" if told.get("rolled_back") == sum(told.values()) else "completed"
            rows.append(Row(level + 1, -1, text, "failed" if frame.failures else well))
    return rows


def _heading(drawing: _Drawing, opened: list[Frame], at: int) -> str:
    """What stands above the tasks of a frame; nothing above the only one of a task other than a loop."""
    attempts = 1 + sum(frame.round <= 1 for frame in opened[1:])
    attempt = 1 + sum(frame.round <= 1 for frame in opened[1 : at + 1])
    which = f"attempt {attempt}" if attempts > 1 else ""
    return ", ".join(part for part in (which, round_text(drawing.state, opened[at])) if part)


def _frame(drawing: _Drawing, frame: Frame, level: int, heading: str) -> list[Row]:
    state = drawing.state
    rows: list[Row] = []
    if heading:
        going = frame.open or frame.finals_open
        around = shown_status(state, frame.owner)
        status = "failed" if frame.failing else around if going else "completed"
        rows.append(Row(level, -1, heading, status))
        level += 1
    tasks = level_tasks(state, frame)
    few = drawing.whole or (len(tasks) <= MANY and not drawing.fold)
    listed = _listed(drawing, tasks)
    left: dict[str, int] = {}
    for number in tasks:
        if few or number in listed:
            rows += _task(drawing, number, level)
        else:
            status = shown_status(state, number)
            left[status] = left.get(status, 0) + 1
    if left and len(rows) > bool(heading):
        rows.append(Row(level, -1, f"  {'  ' * level}others: {counts_text(left)}"))
    return rows


def _listed(drawing: _Drawing, numbers: list[int]) -> set[int]:
    """Those of the notable tasks that are listed: all of few, else what failed first, then what waits or runs."""
    notable = [number for number in numbers if number in drawing.notable]
    if len(notable) > MOST:
        tasks = drawing.state.tasks
        notable.sort(key=lambda number: _WORST.get(tasks[number].status, len(_WORST)))
    return set(notable[:MOST])


_WORST = {"failed": 0, "in_doubt": 1, "blocked": 2, "running": 3}


_NO_EDGE = 10_000
"""Columns of a stream other than a terminal: names are not cut in a pipe or a file."""


def tree(terminal: Terminal, state: State, now: float, whole: bool = False) -> list[str]:
    """The lines of the tree; ``now`` (seconds since 1970) ends the durations of tasks that still run. With ``whole``
    every task has a line, whatever there is to tell."""
    if state.containers and len(state.specs) > state.top.size:
        lines = rows(state, whole)
    else:
        lines = _flat(state, whole)
    columns = terminal.size()[0] if terminal.live else _NO_EDGE
    longest = max((width(row.name) + 2 * row.level for row in lines if row.task >= 0), default=0)
    column = min(40, columns // 2, longest)
    undone = _undone(state)
    return [_text(terminal, state, row, (column, columns), now, row.task in undone) for row in lines]


def _undone(state: State) -> set[int]:
    """Tasks that went well and of which everything inside was undone since."""
    if state.compensation_log is None or not state.containers:
        return set()
    return undone_containers(state)


def _flat(state: State, whole: bool) -> list[Row]:
    tasks = level_tasks(state, state.top)
    every = whole or len(tasks) <= WHOLE
    idle = set() if every else {number for number in tasks if is_idle(state.tasks[number])}
    shown = [number for number in tasks if every or (number not in idle and state.tasks[number].status not in DULL)]
    rows = [Row(0, number, state.specs[number].id) for number in shown]
    return rows + hidden(len(tasks) - len(shown) - len(idle), len(idle))


def _text(terminal: Terminal, state: State, row: Row, room: tuple[int, int], now: float, undone: bool) -> str:
    column, columns = room
    name = "  " * row.level + row.name
    if row.task < 0:
        text = cut(name, columns - 3, terminal.unicode)
        return f"{terminal.sign(row.status)} {text}" if row.status else text
    if terminal.live:
        name = cut(name, column, terminal.unicode)
    status = "rolled_back" if undone else shown_status(state, row.task)
    facts = _facts(terminal, state, row.task, now)
    if undone:
        facts[0] += " and undone"
    text = f"{pad(name, column)}  " + ", ".join(fact for fact in facts if fact)
    return f"{terminal.sign(status)} {cut(text, columns - 3, terminal.unicode)}"


def _facts(terminal: Terminal, state: State, number: int, now: float) -> list[str]:
    task, task_state = state.specs[number], state.tasks[number]
    status = shown_status(state, number)
    facts = [status_word(status)]
    if task_state.started is not None and (task_state.ended is not None or not is_resting(state)):
        facts.append(duration_text(elapsed(task_state, task_state.ended or now if is_resting(state) else now)))
    if task_state.attempts - task_state.past > 1:
        facts.append(attempt_text(task, task_state.attempts, task_state.past))
    if task_state.inner is not None:
        facts.append(
            end_text(state, task_state.inner)
            if task_state.dependency_outcome
            else progress_text(state, task_state.inner)
        )
        facts += [counts_text(counts(state, task_state.inner))] if status == "cancelled" else []
    if task_state.visit > 1:
        facts.append(f"visit {task_state.visit}")
    if status != "completed" and not _told_inside(task_state):
        facts.append(cut(harmless(labelled(state, reason_text(state, number))), terminal.edge(), terminal.unicode))
    facts += [cut(harmless(line), terminal.edge(), terminal.unicode) for line in refused(state, number)]
    if task_state.recovered_by:
        facts.append(f"{task_state.recovered_by} stood in for it")
    return facts


def _told_inside(task_state: TaskState) -> bool:
    """Whether a line below a task says why it ended as it did."""
    inner = task_state.inner
    return (
        inner is not None
        and not inner.closing
        and (len(inner.failures) > inner.tolerate or task_state.status == "cancelled")
    )
