"""What tasks write, as lines of a log: together after each attempt, or as it comes with the name of the task before
each line. It comes without secrets; here it loses what would act on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.escapes import harmless
from planrunner.machine.events import AttemptEnded, AttemptStarted, Event, TasksReset, UndoEnded
from planrunner.machine.names import label
from planrunner.records import Struct
from planrunner.views.terminal import EDGE, Terminal, cut, word

if TYPE_CHECKING:
    from planrunner.machine.state import State

LINES = 500
"""Lines of one attempt that are shown at most: its last ones."""
_OF_SERVICE = 20
"""The same for a service, which writes on and on."""
_KEPT = 1 << 18
"""Bytes of one attempt that wait for its end at most."""
"""What stands before the task in the calls that undo one."""


class Group(Struct):
    """The output of one attempt: the name of its task, and the lines."""

    name: str
    lines: list[str]

    def indented(self) -> list[str]:
        """The lines below the one that tells of the attempt."""
        return [f"    {line}".rstrip() for line in self.lines]


class _Source(Struct):
    """The attempt that wrote something: of a task, or to undo it."""

    task: str
    attempt: int
    undoes: bool


class _Held:
    """The end of what an attempt wrote, and how many lines that were in all."""

    __slots__ = ("data", "lines")

    def __init__(self) -> None:
        self.data = bytearray()
        self.lines = 0

    def add(self, data: bytes) -> None:
        self.lines += data.count(b"\n")
        self.data += data
        if len(self.data) > 2 * _KEPT:
            del self.data[:-_KEPT]


class TaskOutput:
    """The output of the tasks of a run. With ``prefixed`` each line is given as soon as it is whole, else those of an
    attempt are given together."""

    def __init__(self, terminal: Terminal, state: State, run_id: str, prefixed: bool) -> None:
        self._terminal = terminal
        self._state = state
        self._run_id = run_id
        self._prefixed = prefixed
        self._held: dict[_Source, _Held] = {}
        self._ended: dict[str, list[Group]] = {}

    def take(self, task: str, attempt: int, data: bytes) -> list[str]:
        """Take what an attempt wrote; gives the lines to show at once."""
        log, number = self._state.compensation_log, self._state.index.get(task, -1)
        source = _Source(task, attempt, log is not None and number in log.doing)
        held = self._held.setdefault(source, _Held())
        held.add(data)
        if not self._prefixed:
            return []
        whole, newline, rest = bytes(held.data).rpartition(b"\n")
        held.data = bytearray(rest)
        return [self._named(source, line) for line in whole.split(b"\n")] if newline else []

    def end(self, event: AttemptEnded | UndoEnded) -> list[str]:
        """Take the end of an attempt; gives the lines to show at once. What a capability gives as its output counts
        where nothing was written on the way."""
        source = _Source(event.task, event.attempt, isinstance(event, UndoEnded))
        held = self._held.pop(source, None)
        if held is None and (texts := list(filter(None, (event.outcome.stdout, event.outcome.stderr)))):
            held = _Held()
            held.add("\n".join(text.removesuffix("\n") for text in texts).encode("utf-8", "replace"))
        if held is None:
            return []
        if self._prefixed:
            return (
                [self._named(source, line) for line in held.data.removesuffix(b"\n").split(b"\n")] if held.data else []
            )
        self._ended.setdefault(event.task, []).append(self._group(source, held))
        return []

    def due(self, event: Event) -> list[Group]:
        """The attempts that have ended of the tasks that an event tells of, each once."""
        if isinstance(event, (AttemptStarted, AttemptEnded, UndoEnded)):
            return []
        names = event.tasks if isinstance(event, TasksReset) else (getattr(event, "task", ""),)
        return [group for name in names for group in self._ended.pop(name, ())]

    def rest(self) -> list[Group]:
        """Whatever was not given yet, also of attempts that have no end."""
        result = [group for groups in self._ended.values() for group in groups]
        if not self._prefixed:
            result += [self._group(source, held) for source, held in self._held.items()]
        self._ended.clear()
        self._held.clear()
        return result

    def _name(self, source: _Source) -> str:
        number = self._state.index.get(source.task)
        if number is None:
            return source.task
        return f"undo of {label(self._state, number)}" if source.undoes else label(self._state, number)

    def _named(self, source: _Source, line: bytes | bytearray) -> str:
        return f"{self._name(source)} | {self._clean(line)}".rstrip()

    def _group(self, source: _Source, held: _Held) -> Group:
        count = held.lines + (not held.data.endswith(b"\n"))
        kept = held.data.removesuffix(b"\n").split(b"\n")
        if 1 < len(kept) < count:
            del kept[0]  # it has lost its beginning
        number = None if source.undoes else self._state.index.get(source.task)
        most = LINES if number is None or not self._state.specs[number].ready else _OF_SERVICE
        lines = [self._clean(line) for line in kept[-most:]]
        if hidden := count - len(lines):
            mark = "…" if self._terminal.unicode else "..."
            lines.insert(0, f"{mark} {hidden:,} lines before these{self._command(source)}")
        return Group(self._name(source), lines)

    def _command(self, source: _Source) -> str:
        """The command that shows the whole output; there is none for what undoes a task."""
        if source.undoes:
            return ""
        which = f" --attempt {source.attempt}" if source.attempt > 1 else ""
        return f": {self._terminal.program} logs {self._run_id} {word(self._name(source))}{which}"

    def _clean(self, line: bytes | bytearray) -> str:
        """A line as a terminal would leave it: of what was written over itself, such as a bar of progress, the last."""
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        return cut(harmless(text), EDGE, self._terminal.unicode)
