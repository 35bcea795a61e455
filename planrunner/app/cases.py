"""Runs the conformance suite on the cases of a file, in a process of its own that does not outlive this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any, NoReturn

from planrunner.errors import NotFound

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_GRACE = 3.0
"""Seconds for the suite to put its worlds away once it is asked to end."""


def run_cases(file: str) -> int:
    """The exit code of the suite. Ends with it, and with everything it started, when this process is told to end.
    Raises NotFound without such a file."""
    if not os.path.isfile(file):
        raise NotFound(f"there is no file `{file}`", "name one with a list CASES")
    sys.stdout.flush()
    before = {number: signal.signal(number, _end) for number in _ENDING}
    suite = subprocess.Popen(
        [sys.executable, "-m", "planrunner.testing.conformance", file],
        stdin=subprocess.DEVNULL,
        stdout=_descriptor(sys.stdout),
        start_new_session=True,
    )
    try:
        return suite.wait()
    finally:
        _put_away(suite)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _put_away(suite: subprocess.Popen[bytes]) -> None:
    """Ask the suite to end, then end what is left of its session's group."""
    try:
        if suite.poll() is None:
            suite.terminate()
            suite.wait(_GRACE)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(suite.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left
    suite.wait()


def _descriptor(stream: Any) -> int | None:
    """Where this process writes its own results; None, which is descriptor 1, where the stream has no number."""
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None
