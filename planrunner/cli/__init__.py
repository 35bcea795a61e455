"""The command line: a module for each command, and what they share."""

from __future__ import annotations

import gc
import os
import sys

from planrunner.cli.guard import guarded
from planrunner.cli.output import open_standard_streams


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code; ``argv`` is without the program's name (default: ``sys.argv[1:]``)."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        open_standard_streams()
    gc.disable()  # nothing becomes garbage while a command starts; a run that lasts switches it on again
    return guarded(sys.argv[1:] if argv is None else argv, own=argv is None)


def console() -> None:
    """The console script: ``main``, then an end without tearing the interpreter down, which costs a tenth of a short
    run."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # closed or broken: the reader is gone
    os._exit(code)
