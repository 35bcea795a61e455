"""The command line. ``main`` answers help, version and ordinary runs itself; everything else goes through click,
whose import costs more than a short run."""

from __future__ import annotations

import gc
import os
import sys

from planrunner import __version__
from planrunner.cli.closed import open_standard_streams
from planrunner.cli.complete import answer
from planrunner.cli.finder import install
from planrunner.cli.guard import broken_pipe, guarded
from planrunner.cli.plans import list_plans
from planrunner.cli.settings import output, settings
from planrunner.cli.table import help_text


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code; ``argv`` is without the program's name (default: ``sys.argv[1:]``)."""
    arguments = sys.argv[1:] if argv is None else argv
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        open_standard_streams()
    if not arguments:
        return _print_plans()
    if arguments[0] in ("--help", "-h"):
        return _print_help()
    if arguments[0] == "--version":
        return _print_version()
    if arguments[0] == "__complete":
        # Late like the next one: help and version need neither.
        return answer(arguments[1:])
    if sys.implementation.name == "cpython":
        install("planrunner")
    gc.disable()  # nothing becomes garbage while a command starts; a run that lasts switches it on again
    return guarded(arguments, own=argv is None)


def console() -> None:
    """The console script: ``main``, then an end without tearing the interpreter down, which costs a tenth of a short
    run."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # closed or broken: whoever read it is gone
    os._exit(code)


def _print_plans() -> int:
    """The plans of the project; help where it has none."""
    try:
        return 0 if list_plans(output(settings())) else _print_help()
    except BrokenPipeError:
        return broken_pipe()


def _print_help() -> int:
    return _print(help_text())


def _print_version() -> int:
    return _print(f"planrunner {__version__}\n")


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return broken_pipe()
    return 0
