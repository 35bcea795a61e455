"""When each attempt ran: one bar an attempt over the time of the run, folded from the journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry
from planrunner.machine.labels import label
from planrunner.machine.state import State
from planrunner.views.symbols import duration_text
from planrunner.views.terminal import Terminal, pad, width

MOST = 200
"""Attempts shown at most; the longest ones win."""


class Bar(NamedTuple):
    """One attempt. Times are seconds since 1970; ``ended`` is None where nobody saw the end."""

    task: str
    attempt: int
    started: float
    ended: float | None
    failure: str = ""


def bars(entries: Iterable[Entry], state: State) -> list[Bar]:
    """The attempts of a run in the order of their start."""
    found: dict[tuple[str, int], Bar] = {}
    for _, at, event in entries:
        if isinstance(event, AttemptStarted):
            found[event.task, event.attempt] = Bar(_name(state, event), event.attempt, at, None)
        elif isinstance(event, AttemptEnded):
            key = (event.task, event.attempt)
            started = found[key].started if key in found else at
            found[key] = Bar(_name(state, event), event.attempt, started, at, event.outcome.failure)
    return list(found.values())


def _name(state: State, event: AttemptStarted | AttemptEnded) -> str:
    return label(state, state.index[event.task])


def timeline(terminal: Terminal, attempts: list[Bar], now: float) -> list[str]:
    """The lines of the picture; ``now`` ends the bars of attempts that still run."""
    if not attempts:
        return []
    shown = sorted(attempts, key=lambda bar: bar.started - (bar.ended or now))[:MOST]
    shown.sort(key=lambda bar: bar.started)
    start = min(bar.started for bar in attempts)
    end = max(bar.ended or now for bar in attempts)
    names = [bar.task if bar.attempt == 1 else f"{bar.task} #{bar.attempt}" for bar in shown]
    column = min(28, max(width(name) for name in names))
    room = max(10, min(terminal.size()[0], 120) - column - 14)
    scale = room / max(end - start, 1e-9)
    lines = [
        _line(terminal, bar, (_cut_front(terminal, name, column), column, room), (start, scale, now))
        for bar, name in zip(shown, names, strict=True)
    ]
    hidden = len(attempts) - len(shown)
    return lines + ([f"and {hidden} shorter attempts"] if hidden else [])


def _cut_front(terminal: Terminal, name: str, columns: int) -> str:
    """A path in so many columns: its end tells more than its beginning."""
    mark = "…" if terminal.unicode else "~"
    while width(name) > columns:
        name = mark + name[2 if name.startswith(mark) else 1 :]
    return name


def _line(terminal: Terminal, bar: Bar, place: tuple[str, int, int], time: tuple[float, float, float]) -> str:
    name, column, room = place
    start, scale, now = time
    ended = bar.ended or now
    left = min(room - 1, int((bar.started - start) * scale))
    length = max(1, min(room - left, round((ended - bar.started) * scale)))
    status = "running" if bar.ended is None else "failed" if bar.failure else "completed"
    fill = ("▒" if bar.failure else "█") if terminal.unicode else ("x" if bar.failure else "=")
    picture = " " * left + terminal.paint(fill * length, {"failed": "red", "running": "cyan"}.get(status, "green"))
    rest = " " * (room - left - length)
    return f"{pad(name, column)}  {picture}{rest}  {duration_text(ended - bar.started)} {bar.failure}".rstrip()
