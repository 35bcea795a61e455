"""What stands before the command: where runs are kept, colour, and whether anything may be asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from planrunner.caller import PROFILE_VARIABLE, STATE_VARIABLE
from planrunner.cli.output import print_document
from planrunner.errors import Hint, NextStep, UsageError
from planrunner.later import Later
from planrunner.process import disable_plugins
from planrunner.views.terminal import Terminal, word

if TYPE_CHECKING:
    from planrunner.journal.workspace import find_state
else:
    find_state = Later("planrunner.journal.workspace:find_state")


ABOUT_RUNS = (
    *("resume", "retry", "rerun", "revise", "rollback", "pause", "cancel", "budget", "gates", "approve"),
    *("runs", "show", "why", "logs", "events", "checkpoints", "replay", "audit", "artifacts"),
)
"""Commands about runs that hints name."""

COLORS = ("auto", "always", "never")


class Settings:
    """The options of every command; ``state`` is None where neither the option nor PLANRUNNER_STATE names a place.
    ``program`` is how to call this program again for the same runs, ``called`` for the same place; ``on_paper`` says
    that the command acts on nothing."""

    __slots__ = ("called", "color", "no_input", "on_paper", "program", "state")

    def __init__(
        self, state: str | None = None, color: str = "auto", no_input: bool = False, program: str = "planrunner"
    ) -> None:
        self.state = state
        self.color = color
        self.no_input = no_input
        self.called = self.program = program
        self.on_paper = False


def settings(
    state: str | None = None,
    color: str = "auto",
    no_input: bool = False,
    no_plugins: bool = False,
    profile: str | None = None,
    directory: str | None = None,
) -> Settings:
    """The settings from options, with the environment where an option is missing. ``no_plugins``, ``profile`` and the
    working ``directory`` hold for whatever this process does from now on. Raises UsageError for a directory that cannot
    be entered."""
    if directory is not None:
        _enter(directory)
    if profile:
        os.environ[PROFILE_VARIABLE] = profile
    if no_plugins:
        disable_plugins()
    program = "planrunner" if directory is None else f"planrunner -C {word(directory)}"
    program += f" --state {word(state)}" if state else ""
    return Settings(state or os.environ.get(STATE_VARIABLE) or None, color, no_input, program)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"-C `{directory}`: {reason}", "name a directory that exists") from None


def worded(hint: Hint, given: Settings) -> str:
    """A hint with its commands as they are typed here: for the same place and, if they are about runs, for the same
    state directory."""

    def word(step: NextStep) -> str:
        return step.worded(given.program if step.command.split()[0] in ABOUT_RUNS else given.called)

    return hint.worded(word)


def terminal(stream: TextIO, given: Settings) -> Terminal:
    """A stream with its abilities, by ``--color``, NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM and encoding."""
    while (own := getattr(stream, "own", None)) is not None:
        stream = own  # beside plugins and before a terminal: all that is written here is ours
    is_tty = stream.isatty()
    smart = is_tty and os.environ.get("TERM", "") not in ("", "dumb")
    screen = Terminal(stream, _wants_color(smart, given.color), _has_unicode(stream), smart)
    screen.program = given.program
    return screen


def may_ask(given: Settings) -> bool:
    """Whether a person at the terminal may be asked."""
    return not given.no_input and sys.stdin.isatty() and sys.stderr.isatty()


def output(given: Settings) -> Terminal:
    """Standard output, which carries data: a failure to write it is an error."""
    screen = terminal(sys.stdout, given)
    screen.strict = True
    return screen


def emit(given: Settings, told: dict[str, Any] | Iterable[str]) -> int:
    """Write a document for programs as JSON, or lines for people, to standard output; the exit code of success."""
    if isinstance(told, dict):
        print_document(told)
    else:
        output(given).write("\n".join(told) + "\n")
    return 0


def messages(given: Settings) -> Terminal:
    """Standard error."""
    return terminal(sys.stderr, given)


def note_stranger(given: Settings) -> None:
    """Say on standard error where the runs that are shown came from elsewhere."""
    from planrunner.journal.foreign import foreign_warning

    if told := foreign_warning(find_state(None, given.state)):
        messages(given).write(f"note: {told}\n")


def _wants_color(smart: bool, choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    get = os.environ.get
    if get("NO_COLOR"):
        return False
    if get("FORCE_COLOR") not in (None, "", "0") or get("CLICOLOR_FORCE") not in (None, "", "0"):
        return True
    return smart


def _has_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")
