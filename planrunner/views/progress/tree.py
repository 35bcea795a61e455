"""Progress as a picture that redraws itself: what runs, waits or failed; finished tasks are folded into counts."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from planrunner.escapes import harmless
from planrunner.machine.events import AttemptEnded, Entry, GateOpened, TaskSettled, UndoEnded
from planrunner.machine.names import owners, stands
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import duration_text
from planrunner.plan.model import Plan
from planrunner.statuses import status_word
from planrunner.views.containers import active, is_of_calls, name_inside, progress_text
from planrunner.views.ending import ending
from planrunner.views.events import line_of, stopping_text
from planrunner.views.progress.output import TaskOutput
from planrunner.views.status import ORDER, attempt_text, elapsed, shown_counts
from planrunner.views.terminal import Terminal, cut, notes, pad, width
from planrunner.views.tree import TROUBLE, Row, tree

FRAME = 0.125
"""Seconds between two frames at least: eight a second."""

_KEPT = 4096


class TreeProgress:
    """A watch of a run for terminals. Frames never exceed the window; the whole tree is printed once, at the end. The
    ``output`` of tasks stays above the picture: ``grouped``, ``prefixed`` or ``none``, as for ``PlainProgress``."""

    def __init__(self, terminal: Terminal, output: str = "none") -> None:
        self._terminal = terminal
        self._output = output
        self._written: TaskOutput | None = None
        self._above: list[str] = []
        self._state: State | None = None
        self._run_id = ""
        self._drawn = 0
        self._next = 0.0
        self._now = 0.0
        self._tails: dict[str, bytes] = {}
        self._trouble: dict[int, None] = {}

    def started(self, run_id: str, _plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id
        if self._output != "none":
            self._written = TaskOutput(self._terminal, state, run_id, self._output == "prefixed")
        self._trouble = {number: None for number, task in enumerate(state.tasks) if task.status in TROUBLE}

    def warn(self, texts: Sequence[str]) -> None:
        notes(self._terminal, texts)

    def event(self, entry: Entry) -> None:
        """The state is read when the next frame is drawn; a frame is due after an event as well as at a tick."""
        event, state, written = entry.event, self._state, self._written
        if state is not None and isinstance(event, (TaskSettled, GateOpened)):
            self._tails.pop(event.task, None)
            if isinstance(event, GateOpened) or event.status in TROUBLE:
                self._trouble[state.index[event.task]] = None
        if state is not None and written is not None:
            if isinstance(event, (AttemptEnded, UndoEnded)):
                self._above += written.end(event)
            elif line := line_of(self._terminal, state, entry):
                groups = written.due(event)
                self._above += [line] if groups else []
                self._above += [text for group in groups for text in group.indented()]
        self.tick(entry.at)

    def output(self, task: str, attempt: int, _stream: str, data: bytes) -> None:
        """It is drawn at the next tick: a question may stand below the picture."""
        self._tails[task] = (self._tails.get(task, b"") + data)[-_KEPT:]
        if self._written is not None:
            self._above += self._written.take(task, attempt, data)

    def tick(self, now: float) -> None:
        """Draw when a frame is due; ``now`` is on the time line of the run, as entries and ticks tell it."""
        self._now = now
        moment = monotonic()
        if self._state is None or moment < self._next:
            return
        self._next = moment + FRAME
        self._draw(self._frame(self._state, now))

    def let_go(self) -> None:
        """Leave what is drawn where it is: the next output comes below it."""
        self._drawn = 0

    def ended(self, result: Any) -> None:
        if self._state is None:
            return
        for group in self._written.rest() if self._written is not None else ():
            self._above += [f"output of {group.name}:", *group.indented()]
        lines = tree(self._terminal, self._state, self._now)
        self._draw(lines + ending(self._terminal, self._state, self._run_id, result and result.source))
        self._drawn = 0

    def _draw(self, lines: list[str]) -> None:
        """Write over the last frame line by line and erase what is left of it: a screen that is erased as a whole
        flickers, and some terminals keep it in their scrollback."""
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self._terminal.write(up + "".join(f"{line}\x1b[K\n" for line in (*self._above, *lines)) + "\x1b[J")
        self._above.clear()
        self._drawn = len(lines)

    def _frame(self, state: State, now: float) -> list[str]:
        """The head, then what runs, waits or is in trouble, never more than the window has lines."""
        rows = self._terminal.size()[1]
        lines = [self._head(state, now)]
        if state.stop_reason and state.running:
            lines.append(self._cut(harmless(stopping_text(state.stop_reason, state.stop_by, state.stop_comment))))
            rows = max(rows - 1, 4)
        if state.containers:
            shown, hidden = chosen(state, self._trouble, rows - 3)
        else:
            shown, hidden = self._flat(state, rows - 3)
        lines += [self._row(state, row, now) for row in shown]
        if hidden:
            lines.append(self._cut(f"  and {hidden:,} more running"))
        return lines[: self._terminal.size()[1] - 1]

    def _flat(self, state: State, room: int) -> tuple[list[Row], int]:
        """What is shown of a flat plan, and how many running tasks are not."""
        running = list(state.running)
        waiting = [number for number in state.wheel.waiting() if state.tasks[number].status == "pending"]
        trouble = [number for number in self._trouble if state.tasks[number].status in TROUBLE]
        trouble = trouble[-max(1, room // 3) :]
        waiting = waiting[: max(1, room // 4)]
        shown = running[: max(1, room - len(trouble) - len(waiting) - 1)]
        return [Row(0, n, state.specs[n].id) for n in (*shown, *waiting, *trouble)], len(running) - len(shown)

    def _head(self, state: State, now: float) -> str:
        terminal, columns = self._terminal, self._terminal.size()[0]
        counts = shown_counts(state)
        counted = [(status, counts[status]) for status in ORDER if counts.get(status)]
        parts = [(terminal.sign(status), f"{count:,} {status_word(status)}") for status, count in counted]
        plain = "  ".join(f"* {text}" for _, text in parts)
        limit = state.plan.budgets.time
        spent = duration_text(state.spent_time(now)) + (f" of {duration_text(limit)}" if limit is not None else "")
        total = sum(counts.values())
        left = sum(counts.get(status, 0) for status in ("pending", "queued", "running", *TROUBLE[1:]))
        done = f"{total - left}/{total}"
        title = self._cut(f"{state.plan.id} {spent}")
        if width(title) + width(done) + 5 + width(plain) > columns - 1:
            return cut(f"{title}  {done}", columns - 1, terminal.unicode)
        return terminal.paint(title, "bold") + f" [{done}]  " + "  ".join(f"{sign} {text}" for sign, text in parts)

    def _row(self, state: State, row: Row, now: float) -> str:
        """``● name  fact  text``, cut to the window: the sign takes one column."""
        spec, task = state.specs[row.task], state.tasks[row.task]
        sign: str = task.status
        text = ""
        if task.inner is not None and task.status != "pending":
            fact = progress_text(state, task.inner, active(state, task.inner))
        elif task.status == "running":
            attempt = attempt_text(spec, task.attempts, task.past) if task.attempts - task.past > 1 else ""
            fact = f"{duration_text(elapsed(task, now))} {attempt}".rstrip()
            text = _last_line(self._tails.get(spec.id, b""))
        elif task.status in TROUBLE:
            fact, text = status_word(task.status), task.detail or task.reason
        else:
            rest = duration_text(max(0.0, (state.wheel.due(row.task) or now) - now))
            fact = f"{attempt_text(spec, task.attempts + 1, task.past)} in {rest}"
            text, sign = task.outcome.message if task.outcome else "", "retrying"
        terminal = self._terminal
        room = terminal.size()[0] - 3
        name = cut("  " * row.level + row.name, max(8, room // 3), terminal.unicode)
        line = f"{pad(name, min(24, room // 3))}  {fact}"
        rest_room = room - width(line) - 2
        text = terminal.paint(cut(harmless(text), rest_room, terminal.unicode), "dim") if rest_room > 8 and text else ""
        return f"{terminal.sign(sign)} {cut(line, room, terminal.unicode)}" + (f"  {text}" if text else "")

    def _cut(self, text: str) -> str:
        return cut(text, self._terminal.size()[0], self._terminal.unicode)


def _last_line(held: bytes) -> str:
    for line in reversed(held[-1024:].decode("utf-8", "replace").splitlines()):
        if line.strip():
            return line.strip()
    return ""


def chosen(state: State, trouble: dict[int, None], room: int) -> tuple[list[Row], int]:
    """At most ``room`` rows, in the order of the run, and how many running tasks have none. ``trouble`` are the tasks
    that ever got into some, those that are out of it are taken from it."""
    picked = _Picked(state, room)
    for number in _in_trouble(state, trouble, max(1, room // 3)):
        picked.add(number)
    waiting = [number for number in state.wheel.waiting() if state.tasks[number].status == "pending"]
    for number in waiting[: max(1, room // 4)]:
        picked.add(number)
    left = sum(not picked.add(number) for number in list(state.running))
    for number in state.containers:
        if picked.full:
            break
        if state.tasks[number].status == "running" and state.tasks[number].frame is state.top:
            picked.add(number)
    return picked.rows(), left


def _in_trouble(state: State, trouble: dict[int, None], most: int) -> list[int]:
    """The newest tasks in trouble that still matter."""
    troubled: list[int] = []
    for number in list(reversed(trouble)):
        if state.tasks[number].status not in TROUBLE or not stands(state, number):
            del trouble[number]
        elif number not in state.containers or state.tasks[number].inner is None:
            troubled.append(number)
            if len(troubled) == most:
                break
    return troubled


class _Picked:
    """Tasks that have a row, with those that hold them; each costs a row once."""

    __slots__ = ("_room", "_shown", "_state")

    def __init__(self, state: State, room: int) -> None:
        self._state = state
        self._room = room
        self._shown: set[int] = set()

    @property
    def full(self) -> bool:
        return len(self._shown) >= self._room

    def add(self, number: int) -> bool:
        """Whether there was room for the task and whatever holds it."""
        if self.full:
            return False
        wanted = {number, *owners(self._state, number)} - self._shown
        if len(self._shown) + len(wanted) > self._room:
            return False
        self._shown |= wanted
        return True

    def rows(self) -> list[Row]:
        below: dict[int, list[int]] = {}
        for number in sorted(self._shown):
            below.setdefault(self._state.tasks[number].frame.owner, []).append(number)
        rows: list[Row] = []
        todo = [(number, 0) for number in reversed(below.get(-1, []))]
        while todo:
            number, level = todo.pop()
            if not is_of_calls(self._state, number):
                rows.append(Row(level, number, name_inside(self._state, number)))
                level += 1
            todo += [(child, level) for child in reversed(below.get(number, []))]
        return rows
