"""Runs a command and turns whatever goes wrong into a message on standard error and an exit code of the contract."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from planrunner.cli.group import run, write_error
from planrunner.cli.output import guard_terminals
from planrunner.cli.settings import Settings, messages, worded
from planrunner.errors import INTERNAL, INTERRUPTED, USAGE, Denied, Hint, NextStep, PlanInvalid, PlanrunnerError
from planrunner.process import set_own_process

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
_GONE = "the current directory does not exist any more"
_ELSEWHERE = "change to another with `cd`, then call it again"
UNWRITTEN = 74
"""``EX_IOERR`` of sysexits.h: standard output could not be written."""

PIPE_CLOSED = 141
"""What shells report for a program that SIGPIPE ended: the reader went away before everything was written."""


def guarded(arguments: list[str], own: bool = False) -> int:
    """Run the command that ``arguments`` ask for; never raises. With ``own`` the process has nothing else to do."""
    _write_all()
    asked: list[Settings] = []
    try:
        try:
            code = _dispatch(arguments, own, asked)
        finally:
            _tell_of_plugins()
            _empty_errors()
        sys.stdout.flush()
        return code
    except PlanInvalid as error:
        return _invalid(error, asked, arguments)
    except PlanrunnerError as error:
        way_out = Hint(f"{_GONE}; {_ELSEWHERE}") if _is_gone() else error.way_out
        hint = worded(way_out, asked[0] if asked else Settings())
        _say(f"error: {error.message}", hint)
        write_error(arguments, error.message, hint, error.exit_code, way_out.steps)
        if isinstance(error, Denied):
            _keep(error, asked)
        return error.exit_code
    except BrokenPipeError:
        return broken_pipe()
    except OSError as error:
        if error.errno in _DISK and error.filename is None:
            return _full(error, asked)
        return _nowhere() if isinstance(error, FileNotFoundError) and _is_gone() else _bug(error, arguments)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _bug(error, arguments)


def _write_all() -> None:
    """Have names that are not UTF-8 written as escapes, which are JSON as well, rather than fail in the middle; on a
    terminal also what would act on it."""
    if getattr(sys.stdout, "errors", "") in ("strict", "surrogateescape") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if _is_terminal(sys.stdout) or _is_terminal(sys.stderr):
        guard_terminals()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False  # it is closed


def _dispatch(arguments: list[str], own: bool, asked: list[Settings]) -> int:
    """Run the command; ``asked`` gets the settings that stood before it, as soon as they are read."""
    if own:
        set_own_process()
    return run(arguments, asked)


def _tell_of_plugins() -> None:
    """What went wrong with plugins on the way, for commands that do not show it themselves."""
    problems = sys.modules.get("planrunner.plugins.reports")
    for problem in problems.fetch() if problems is not None else ():
        _say(f"warning: {problem}")


def _empty_errors() -> None:
    """What standard error could not take goes nowhere: the interpreter's own flush at the end would fail with a code of
    its own, whatever became of the run."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            _discard(sys.stderr)


def broken_pipe() -> int:
    """Leave quietly; the interpreter's own flush at the end must not fail a second time."""
    _discard(sys.stdout)
    return PIPE_CLOSED


def _discard(stream: TextIO) -> None:
    """Have whatever is still written to ``stream`` go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _say(message: str, hint: str = "") -> None:
    try:
        sys.stderr.write(message + "\n" + (f"  {hint}\n" if hint else ""))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _keep(denied: Denied, asked: Sequence[Settings]) -> None:
    """Keep for audit that a plan was not let start, but on paper. Where that fails the plan stays refused."""
    from planrunner.app.history.audit import keep

    if not denied.rule or not asked or asked[0].on_paper:
        return
    try:
        keep(denied, asked[0].state)
    except Exception as problem:  # whatever it is, the refusal is what has to be told
        _say(f"warning: this refusal is not on record: {getattr(problem, 'message', problem)}")


def _full(error: OSError, asked: Sequence[Settings]) -> int:
    """Standard output goes to a file on a disk that is full or fails. What the command did is done all the same."""
    broken_pipe()
    hint = Hint("what the command did stands; see ", NextStep("show", "last"), " for how a run ended")
    _say(
        f"error: standard output cannot be written: {error.strerror}",
        worded(hint, asked[0] if asked else Settings()),
    )
    return UNWRITTEN


def _is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _nowhere() -> int:
    """The working directory of the command was removed."""
    _say(f"error: {_GONE}", _ELSEWHERE)
    return USAGE


def _invalid(error: PlanInvalid, asked: Sequence[Settings], arguments: Sequence[str]) -> int:
    # Late: only plans with faults need the renderer.
    from planrunner.views.findings import findings_data, render_text

    screen = messages(asked[0] if asked else Settings())
    screen.write(render_text(error.findings, error.source, screen.color) + "\n")
    _say(f"error: {error.message}", error.hint)
    if "--json" in arguments:
        findings = findings_data([(error.source, error.findings)])["findings"]
        write_error(arguments, error.message, error.hint, error.exit_code, findings=findings)
    return error.exit_code


def _bug(error: Exception, arguments: Sequence[str]) -> int:
    # Late: this is for faults of our own.
    from planrunner.cli.crash import write_report

    path = write_report(error, arguments)
    _say(
        f"internal error: {type(error).__name__}: {error}",
        f"this is a fault of planrunner; a report is in {path}" if path else "this is a fault of planrunner",
    )
    return INTERNAL
