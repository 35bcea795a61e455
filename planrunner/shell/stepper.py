"""Stepping through a recorded run: the commands and what they show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from planrunner.app.plans.tasks import task_number
from planrunner.errors import PlanrunnerError, UsageError
from planrunner.escapes import harmless
from planrunner.machine.events import Entry
from planrunner.machine.explain import why
from planrunner.machine.names import labelled
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.values import EvaluationError, ExpressionError
from planrunner.plan.nearest import meant, nearest
from planrunner.shell.breakpoints import Breakpoint, Moment, breakpoint_of
from planrunner.shell.recording import Recording
from planrunner.views.events import line_of
from planrunner.views.progress.jsonl import entry_text
from planrunner.views.terminal import Terminal, cut, plural
from planrunner.views.tree import tree

Json = Any
Lines = Iterator[str]

HELP: tuple[tuple[str, str], ...] = (
    ("step [N]", "fold the next entry, or the next N"),
    ("next", "go on to the next entry about another task"),
    ("back [N]", "go back one entry, or N"),
    ("continue", "go on to the next breakpoint, or to the end"),
    ("reverse", "go back to the last breakpoint, or to the beginning"),
    ("goto SEQ", "go to the moment after the entry with that number"),
    ("break TASK", "stop where the status of a task changes"),
    ("break event TYPE", "stop at events of a type, such as attempt_ended"),
    ("break when EXPR", "stop where a condition begins to hold, such as tasks.test.status == 'failed'"),
    ("delete [N]", "delete breakpoint N, or all"),
    ("state", "show how the run stood, as a tree"),
    ("why TASK", "explain how a task stood"),
    ("print EXPR", "show the value of an expression, such as tasks.test.outputs or event"),
    ("list [N]", "list the entries around this one"),
    ("quit", "leave the recorded run"),
)
"""The commands, each with what it does."""

WORDS = tuple(dict.fromkeys(usage.split()[0] for usage, _ in HELP))
_SHORT = {
    "s": "step",
    "n": "next",
    "b": "back",
    "c": "continue",
    "r": "reverse",
    "p": "print",
    "q": "quit",
    "l": "list",
    "exit": "quit",
}


class Stepper:
    """A recorded run, its breakpoints, and the commands that move through it. ``keep`` is given the breakpoints as
    they are typed, whenever they change. ``over`` is set by ``quit``."""

    __slots__ = ("_keep", "_screen", "breakpoints", "over", "recording")

    def __init__(self, recording: Recording, screen: Terminal, keep: Callable[[tuple[str, ...]], object]) -> None:
        self.recording = recording
        self.breakpoints: list[Breakpoint] = []
        self.over = False
        self._screen = screen
        self._keep = keep

    @property
    def prompt(self) -> str:
        """What stands before a command: how far the recording is."""
        return f"step {self.recording.position}/{len(self.recording.entries)}> "

    def restore(self, texts: tuple[str, ...]) -> list[str]:
        """Set breakpoints of an earlier session; gives those that this run cannot have."""
        left = []
        for text in texts:
            try:
                self.breakpoints.append(breakpoint_of(text, self.recording))
            except PlanrunnerError as error:
                left.append(f"breakpoint `{text}` is left out: {error.message}")
        return left

    def do(self, line: str) -> list[str]:
        """Carry a command out; the lines that it shows. An empty line is ``step``. Raises UsageError, NotFound."""
        word, _, rest = line.strip().partition(" ")
        word, rest = _SHORT.get(word, word) or "step", rest.strip()
        if word not in (*WORDS, "help"):
            raise UsageError(f"no command `{word}`{meant(nearest(word, WORDS))}", f"there are {', '.join(WORDS)}")
        act: Callable[[str], Lines] = getattr(self, f"do_{word}")
        return list(act(rest))

    def do_step(self, rest: str) -> Lines:
        for _ in range(_count(rest)):
            if self.recording.step() is None:
                break
            yield self._line()
        yield from self._end()

    def do_back(self, rest: str) -> Lines:
        self.recording.go(self.recording.position - _count(rest))
        yield self._line()

    def do_next(self, rest: str) -> Lines:
        task = _task_of(self.recording.entry)
        self.recording.forward(lambda entry: not task or not _is_about(entry, task))
        yield self._line()
        yield from self._end()

    def do_continue(self, rest: str) -> Lines:
        self._reset()
        hit: list[Breakpoint] = []
        self.recording.forward(lambda entry: self._hits(entry, hit))
        yield from self._stopped(hit)

    def do_reverse(self, rest: str) -> Lines:
        end = self.recording.position
        self.recording.go(0)
        self._reset()
        self.recording.go(end)
        hit: list[Breakpoint] = []
        self.recording.back(lambda entry: self._hits(entry, hit))
        yield from self._stopped(hit if self.recording.position else [])

    def _hits(self, entry: Entry, hit: list[Breakpoint]) -> bool:
        """Each breakpoint is asked, since each compares with the entry before."""
        held = [each for each in self.breakpoints if each.holds(self.recording.state, entry)]
        if held:
            hit[:] = held
        return bool(held)

    def _stopped(self, hit: list[Breakpoint]) -> Lines:
        for each in hit:
            yield f"breakpoint {self.breakpoints.index(each) + 1}: {harmless(each.text)}"
        yield self._line()
        yield from self._end()

    def do_goto(self, rest: str) -> Lines:
        wanted = _number(rest, "goto SEQ")
        self.recording.go(sum(entry.seq <= wanted for entry in self.recording.entries))
        yield self._line()

    def do_break(self, rest: str) -> Lines:
        if not rest:
            yield from self._listed()
            return
        made = breakpoint_of(rest, self.recording)
        self.breakpoints.append(made)
        self._kept()
        yield f"breakpoint {len(self.breakpoints)}: {harmless(made.text)}"

    def _listed(self) -> Lines:
        if not self.breakpoints:
            yield "no breakpoint; set one: break TASK, break event TYPE or break when EXPR"
        for number, each in enumerate(self.breakpoints, 1):
            yield f"{number:>3}  {harmless(each.text)}"

    def do_delete(self, rest: str) -> Lines:
        if rest:
            number = _number(rest, "delete N")
            if not 0 < number <= len(self.breakpoints):
                raise UsageError(f"there is no breakpoint {number}", "`break` lists them")
            del self.breakpoints[number - 1]
        else:
            self.breakpoints.clear()
        self._kept()
        yield from self._listed()

    def do_state(self, rest: str) -> Lines:
        yield from tree(self._screen, self.recording.state, self.recording.now)

    def do_why(self, rest: str) -> Lines:
        if not rest:
            raise UsageError("`why` needs a task", "why TASK")
        state = self.recording.state
        name = state.specs[task_number(state, rest)].id
        yield from (harmless(labelled(state, line)) for line in why(state, name))

    def do_print(self, rest: str) -> Lines:
        try:
            value = evaluate(parse(rest).tree, Moment(self.recording.state, self.recording.entry))
        except ExpressionError as error:
            raise UsageError(f"the expression does not parse: {error.message}", error.help) from None
        except EvaluationError as error:
            raise UsageError(f"the expression has no value here: {error}") from None
        lines = json.dumps(value, indent=2, ensure_ascii=False, default=str).split("\n")
        yield from map(harmless, lines)

    def do_list(self, rest: str) -> Lines:
        around, here = _count(rest or "5"), self.recording.position
        for position in range(max(1, here - around), min(len(self.recording.entries), here + around) + 1):
            mark = ">" if position == here else " "
            yield self._cut(f"{mark} {_told(self.recording.entries[position - 1])}")

    def do_help(self, rest: str) -> Lines:
        width = max(len(usage) for usage, _ in HELP)
        yield from (f"  {usage:<{width}}  {text}" for usage, text in HELP)
        yield "  an empty line is `step`; s, n, b, c, r, p, l and q are short for the words that begin so"

    def do_quit(self, rest: str) -> Lines:
        self.over = True
        return iter(())

    def _line(self) -> str:
        entry = self.recording.entry
        if entry is None:
            return f"at the beginning of run {self.recording.run_id}"
        told, first = line_of(self._screen, self.recording.state, entry), self._cut(_told(entry))
        return f"{first}\n      {told}" if told else first

    def _cut(self, text: str) -> str:
        return cut(text, self._screen.edge(), self._screen.unicode)

    def _end(self) -> Lines:
        if self.recording.is_over:
            count = plural(len(self.recording.entries), "entry").replace("entrys", "entries")
            yield f"the recording ends here, after {count}: the run is {self.recording.state.status}"

    def _reset(self) -> None:
        for each in self.breakpoints:
            each.reset(self.recording.state)

    def _kept(self) -> None:
        self._keep(tuple(each.text for each in self.breakpoints))


def _told(entry: Entry) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(entry.at))
    return f"{entry.seq:>5} {moment}.{int(entry.at * 1000) % 1000:03d} {entry_text(entry)}"


def _task_of(entry: Entry | None) -> str:
    return "" if entry is None else str(getattr(entry.event, "task", ""))


def _is_about(entry: Entry, task: str) -> bool:
    """Whether an entry is about a task, or about one inside it."""
    name = _task_of(entry)
    return name == task or (name.startswith(task) and name[len(task)] in "/#[@")


def _count(rest: str) -> int:
    return _number(rest, "a number of entries") if rest else 1


def _number(rest: str, usage: str) -> int:
    if not rest.isdecimal() or len(rest) > 9:
        raise UsageError(f"`{rest}` is not a number", usage)
    return int(rest)
