"""Progress as a picture that redraws itself: what runs, waits or failed; finished tasks are folded into counts."""

from __future__ import annotations

from time import monotonic, time
from typing import Any

from planrunner.machine.events import Entry, GateOpened, TaskSettled
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.run import attempt_text, elapsed
from planrunner.views.symbols import duration_text
from planrunner.views.terminal import Terminal, cut, harmless, pad, width

FRAME = 0.125
"""Seconds between two frames at least: eight a second."""

_KEPT = 4096
_FOLDED = (
    "completed",
    "running",
    "queued",
    "pending",
    "blocked",
    "skipped",
    "omitted",
    "cancelled",
    "in_doubt",
    "failed",
)
_TROUBLE = ("failed", "in_doubt", "blocked")


class TreeProgress:
    """A watch of a run for terminals. Frames never exceed the window; the whole tree is printed once, at the end."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._state: State | None = None
        self._run_id = ""
        self._drawn = 0
        self._next = 0.0
        self._tails: dict[str, bytes] = {}
        self._trouble: dict[int, None] = {}

    def started(self, run_id: str, _plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id
        self._trouble = {number: None for number, found in enumerate(state.tasks) if found.status in _TROUBLE}

    def event(self, entry: Entry) -> None:
        """The state is read when the next frame is drawn; a frame is due after an event as well as at a tick."""
        if self._state is not None and isinstance(entry.event, (TaskSettled, GateOpened)):
            self._tails.pop(entry.event.task, None)
            if isinstance(entry.event, GateOpened) or entry.event.status in _TROUBLE:
                self._trouble[self._state.index[entry.event.task]] = None
        self._draw_when_due(entry.at)

    def output(self, task: str, _attempt: int, _stream: str, data: bytes) -> None:
        self._tails[task] = (self._tails.get(task, b"") + data)[-_KEPT:]
        self._draw_when_due(time())

    def tick(self, now: float) -> None:
        self._draw_when_due(now)

    def let_go(self) -> None:
        """Leave what is drawn where it is: somebody else writes below it."""
        self._drawn = 0

    def ended(self, _result: Any) -> None:
        if self._state is None:
            return
        # Late: only the end of a run needs them.
        from planrunner.views.ending import ending
        from planrunner.views.tree import tree

        lines = tree(self._terminal, self._state, time()) + ending(self._terminal, self._state, self._run_id)
        self._draw(lines)
        self._drawn = 0

    def _draw_when_due(self, now: float) -> None:
        moment = monotonic()
        if self._state is None or moment < self._next:
            return
        self._next = moment + FRAME
        self._draw(self._frame(self._state, now))

    def _draw(self, lines: list[str]) -> None:
        """Write over the last frame line by line and erase what is left of it: a screen that is erased as a whole
        flickers, and some terminals keep it in their scrollback."""
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self._terminal.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._drawn = len(lines)

    def _frame(self, state: State, now: float) -> list[str]:
        columns, rows = self._terminal.size()
        room = rows - 3
        running = list(state.running)
        waiting = [number for _, number in state.timers if state.tasks[number].status == "pending"]
        trouble = [number for number in self._trouble if state.tasks[number].status in _TROUBLE]
        shown_trouble = trouble[-max(1, room // 3) :]
        shown_waiting = waiting[: max(1, room // 4)]
        shown_running = running[: max(1, room - len(shown_trouble) - len(shown_waiting) - 1)]
        lines = [self._head(state, now, columns)]
        lines += [self._running_line(state, number, now, columns) for number in shown_running]
        hidden = len(running) - len(shown_running)
        if hidden:
            lines.append(cut(f"  and {hidden} more running", columns))
        lines += [self._waiting_line(state, number, now, columns) for number in shown_waiting]
        lines += [self._trouble_line(state, number, columns) for number in shown_trouble]
        return lines[: rows - 1]

    def _head(self, state: State, now: float, columns: int) -> str:
        terminal = self._terminal
        parts = []
        for status in _FOLDED:
            count = state.counts.get(status, 0)  # type: ignore[call-overload]
            if count:
                parts.append((terminal.sign(status), f"{count} {status.replace('_', ' ')}"))
        plain = "  ".join(f"* {text}" for _, text in parts)
        limit = state.plan.budgets.time
        spent = duration_text(state.spent_time(now)) + (f" of {duration_text(limit)}" if limit is not None else "")
        title = cut(f"{state.plan.id} {spent}", columns, terminal.unicode)
        if width(title) + 2 + width(plain) > columns - 1:
            done, total = len(state.tasks) - state.open - state.finals_open, len(state.tasks)
            return cut(f"{title}  {done}/{total}", columns - 1, terminal.unicode)
        return terminal.paint(title, "bold") + "  " + "  ".join(f"{sign} {text}" for sign, text in parts)

    def _running_line(self, state: State, number: int, now: float, columns: int) -> str:
        task, found = state.specs[number], state.tasks[number]
        facts = [duration_text(elapsed(found, now)), attempt_text(task, found.attempts) if found.attempts > 1 else ""]
        fact = " ".join(text for text in facts if text)
        return self._line("running", task.id, fact, _last_line(self._tails.get(task.id, b"")), columns)

    def _waiting_line(self, state: State, number: int, now: float, columns: int) -> str:
        task, found = state.specs[number], state.tasks[number]
        rest = duration_text(max(0.0, (found.due or now) - now))
        fact = f"{attempt_text(task, found.attempts + 1)} in {rest}"
        message = found.outcome.message if found.outcome else ""
        return self._line("retrying", task.id, fact, message, columns)

    def _trouble_line(self, state: State, number: int, columns: int) -> str:
        task, found = state.specs[number], state.tasks[number]
        return self._line(found.status, task.id, found.status.replace("_", " "), found.detail or found.reason, columns)

    def _line(self, status: str, name: str, fact: str, text: str, columns: int) -> str:
        """``● name  fact  text``, cut to the window: the sign takes one column."""
        terminal = self._terminal
        room = columns - 3
        name = cut(name, max(8, room // 3), terminal.unicode)
        line = f"{pad(name, min(24, room // 3))}  {fact}"
        rest = room - width(line) - 2
        text = terminal.paint(cut(harmless(text), rest, terminal.unicode), "dim") if rest > 8 and text else ""
        return f"{terminal.sign(status)} {cut(line, room, terminal.unicode)}" + (f"  {text}" if text else "")


def _last_line(held: bytes) -> str:
    for line in reversed(held[-1024:].decode("utf-8", "replace").splitlines()):
        if line.strip():
            return line.strip()
    return ""
