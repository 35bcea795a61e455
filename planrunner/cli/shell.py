"""``planrunner shell``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import ShellComplete

from planrunner.cli.group import COMPLETE, given_settings, planrunner
from planrunner.cli.guard import guarded
from planrunner.cli.settings import Settings, output
from planrunner.cli.table import COMMANDS
from planrunner.errors import missing_extra
from planrunner.journal.workspace import find_project, find_state

if TYPE_CHECKING:
    from planrunner.shell.loop import Commands, Found, Shell

_WARM = ("exec", "show", "runs", "lint", "queue", "gates", "rerun", "resume")
"""Modules of commands that are loaded before the first one is typed."""


@click.command("shell")
@click.option("--as", "wanted", default="", metavar="NAME", help="Profile of `cli_profiles` to use.")
@click.option("--session", default="", metavar="NAME", help="Session to open or to begin (default: main).")
@click.pass_context
def shell_command(ctx: click.Context, /, wanted: str, session: str) -> int:
    """Work at a prompt: commands without `planrunner` before them, with completion and a session that persists.

    Beside all commands there are `attach` (a run live), `step` (through a recorded run, with breakpoints), `edit-last`,
    `history`, `queue`, `run-queue` and `queue-status`. Without a terminal, lines are read from standard input.

    \b
    Examples:
      planrunner shell
      planrunner shell --session release
      echo 'exec hello' | planrunner shell
    """
    try:
        loop, profiles = import_module("planrunner.shell.loop"), import_module("planrunner.shell.profiles")
        terminal = import_module("planrunner.shell.terminal") if _at_terminal() else None
    except ImportError as error:
        raise missing_extra("shell needs", "shell", error) from None
    given = given_settings(ctx)
    root = find_project(None)
    place = loop.Place(root, find_state(None, given.state), output(given))
    profile = profiles.chosen(profiles.shell_profiles(root), wanted)
    for name in _WARM:
        import_module(f"planrunner.cli.{name}")
    asking: list[Any] = []
    ask = partial(_asked, asking)
    shell = loop.Shell(place, commands_of(given, loop), ask, profile, session)
    if terminal is None:
        return _by_lines(shell)
    prompt = terminal.Prompt(shell, place)
    asking.append(prompt)
    shell.greet()
    code: int = prompt.work()
    return code


def commands_of(given: Settings, loop: Any) -> Commands:
    """The command line as the shell gets it."""
    table = tuple((name, text) for name, _, text, _ in COMMANDS if name != "shell")
    commands: Commands = loop.Commands(
        partial(_forked, _options(given)), partial(_candidates, _options(given), loop.Found), table
    )
    return commands


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(asking: list[Any], prompt: str) -> str:
    """A line that is typed after a prompt. Raises EOFError without a terminal."""
    if not asking:
        raise EOFError
    line: str = asking[0].ask(prompt)
    return line


def _by_lines(shell: Shell) -> int:
    """Carry out the lines of standard input; the exit code of the last one."""
    for line in sys.stdin:
        shell.carry_out(line.rstrip("\n"))
        if shell.over:
            break
    return shell.code


def _options(given: Settings) -> list[str]:
    """The options before a command that a command of the shell has as well; the directory holds for the process."""
    state = ["--state", given.state] if given.state else []
    return [*state, "--color", given.color, *(["--no-input"] if given.no_input else [])]


def _candidates(options: Sequence[str], found: type[Found], words: Sequence[str], word: str) -> list[Found]:
    """What may stand for a word after others, as a shell's completion has it."""
    items = ShellComplete(planrunner, {}, "planrunner", COMPLETE).get_completions([*options, *words], word)
    return [found(str(item.value), item.help or "", item.type in ("file", "dir")) for item in items]


def _forked(options: Sequence[str], words: Sequence[str]) -> int:
    """Carry a command out in a copy of this process, which has loaded everything already; its exit code. What a run
    does to its process, a handler of signals for one, ends with it."""
    sys.stdout.flush()
    sys.stderr.flush()
    with _signals_ignored():
        number = os.fork()
        if not number:
            os._exit(_child([*options, *words]))
        _, status = os.waitpid(number, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _child(words: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    code = guarded(words, own=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # closed or broken: the reader is gone
    return code


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Inside, Ctrl-C and Ctrl-\\ are for the command that runs."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
