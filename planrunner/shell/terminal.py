"""The prompt at a terminal: editing with history and completion, and a line below that says how things stand."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from planrunner.app.follow.summaries import recent
from planrunner.app.plans.files import project_plans
from planrunner.app.queue.asking import overview
from planrunner.errors import PlanrunnerError
from planrunner.journal.codec import event_types
from planrunner.shell.loop import OWN, Found, Place, Shell
from planrunner.shell.session import sessions
from planrunner.shell.stepper import HELP
from planrunner.statuses import SHOWN

_OF_RUNS = ("attach", "step", "edit-last", "use")
_CHANGES = 2.0
"""Seconds between two looks for the line below the prompt."""


class Words(Completer):
    """Completes what a shell understands: commands with their options, plans, runs, tasks and gates."""

    def __init__(self, shell: Shell, place: Place) -> None:
        self._shell = shell
        self._place = place

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before, word = _split(document.text_before_cursor)
        try:
            found = self._stepping(before, word) if self._shell.stepper is not None else self._found(before, word)
            for each in found:
                if each.files:
                    yield from _files(word, complete_event)
                else:
                    yield Completion(_typed(each.value), -len(word), display=each.value, display_meta=each.text)
        except PlanrunnerError:
            return  # what is not there completes nothing

    def _found(self, before: list[str], word: str) -> Iterable[Found]:
        if not before:
            return self._names(word)
        name = before[0].removeprefix("/")
        if name in _OF_RUNS:
            return self._shell.commands.complete(["show"], word) if len(before) == 1 else []
        if name in ("session", "sessions"):
            return _beginning(((each, "") for each in sessions(self._place.state)), word)
        if name == "help":
            return self._names(word)
        alias = self._shell.aliases.get(name)
        words = [*(shlex.split(alias) if alias else [name]), *before[1:]]
        if words[:1] == ["queue"] and len(words) == 1:
            plans = _beginning(project_plans(), word)
            return [*self._shell.commands.complete(words, word), *plans]
        return self._with_plans(self._shell.commands.complete(words, word), word)

    def _with_plans(self, found: list[Found], word: str) -> list[Found]:
        """Where a file is wanted, the plans of the project come first."""
        wants_file = any(each.files for each in found)
        return [*(_beginning(project_plans(), word) if wants_file else []), *found]

    def _names(self, word: str) -> list[Found]:
        slash = "/" if word.startswith("/") else ""
        own = ((usage.split()[0], text) for usage, text in OWN)
        every = dict([*own, *self._shell.profile.aliases, *self._shell.commands.table])
        return _beginning(((slash + name, text) for name, text in every.items()), word)

    def _stepping(self, before: list[str], word: str) -> list[Found]:
        assert self._shell.stepper is not None
        if not before:
            return _beginning(((usage.split()[0], text) for usage, text in reversed(HELP)), word)
        specs = self._shell.stepper.recording.state.specs
        tasks = [(spec.id, spec.title) for spec in specs]
        if before == ["break"]:
            return _beginning([("event", "a type of event"), ("when", "a condition"), *tasks], word)
        if before == ["break", "event"]:
            return _beginning(((kind, "") for kind in sorted(event_types())), word)
        return _beginning(tasks, word) if before == ["why"] else []


def _beginning(candidates: Iterable[tuple[str, str]], word: str) -> list[Found]:
    return [Found(value, text) for value, text in dict(candidates).items() if value.startswith(word)]


def _split(text: str) -> tuple[list[str], str]:
    """The words before the one that is being typed, and what there is of it."""
    begun = "" if not text or text[-1].isspace() else text.rsplit(maxsplit=1)[-1]
    try:
        return shlex.split(text[: len(text) - len(begun)]), begun
    except ValueError:
        return text.split()[:-1], begun


def _typed(value: str) -> str:
    """A value as a word: quoted where it has spaces or quotes."""
    return shlex.quote(value) if any(sign.isspace() or sign in "'\"\\" for sign in value) else value


def _files(word: str, event: CompleteEvent) -> Iterator[Completion]:
    yield from PathCompleter(expanduser=True).get_completions(Document(word), event)


class Standing:
    """The line below the prompt: session, profile, the run at hand and the queue."""

    def __init__(self, shell: Shell, place: Place, clock: Callable[[], float]) -> None:
        self._shell = shell
        self._place = place
        self._clock = clock
        self._next = 0.0
        self._text = ""

    def __call__(self) -> FormattedText:
        if self._clock() >= self._next:
            self._next = self._clock() + _CHANGES
            self._text = " · ".join(self._parts())
        return FormattedText([("class:bottom-toolbar.text", f" {self._text} ")])

    def _parts(self) -> Iterator[str]:
        yield f"session {self._shell.session.name}"
        if self._shell.profile.name:
            yield f"profile {self._shell.profile.name}"
        if self._shell.stepper is not None:
            recording = self._shell.stepper.recording
            yield f"stepping through {recording.run_id}: {recording.state.status}"
            return
        try:
            runs = {run.run: run for run in recent(self._place.state)}
            if run := runs.get(self._shell.session.run):
                shown = SHOWN.get(run.status)
                sign = "" if shown is None else shown.sign if self._place.screen.unicode else shown.plain
                yield f"{run.plan_id} {run.run} {sign} {run.status}"
            counts = overview(self._place.state).counts
            if waits := counts.get("waiting"):
                yield f"{waits} queued"
        except PlanrunnerError as error:
            yield error.message


class Prompt:
    """Reads the lines of a shell at a terminal, and carries them out until it is over."""

    def __init__(self, shell: Shell, place: Place, reads: Input | None = None, writes: Output | None = None) -> None:
        """``reads`` and ``writes`` are those of the process where nothing else is given."""
        self._shell = shell
        self._kept = InMemoryHistory([line.text for line in shell.session.lines])
        self._session: PromptSession[str] = PromptSession(
            history=self._kept,
            completer=Words(shell, place),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=Standing(shell, place, time.monotonic),
            refresh_interval=_CHANGES,
            input=reads,
            output=writes,
        )

    def work(self) -> int:
        """Read and carry out until `exit` or Ctrl-D; the exit code of the last line. Ctrl-C drops what was typed."""
        shell = self._shell
        while not shell.over:
            try:
                line = self._session.prompt(shell.prompt)
            except KeyboardInterrupt:
                continue
            except EOFError:
                if shell.stepper is None:
                    break
                line = "quit"
            shell.carry_out(line)
        return shell.code

    def ask(self, prompt: str) -> str:
        """A line after a prompt of its own, which no session keeps. Raises EOFError, KeyboardInterrupt."""
        plain: PromptSession[str] = PromptSession(input=self._session.input, output=self._session.output)
        return plain.prompt(prompt)
