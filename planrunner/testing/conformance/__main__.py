"""``python -m planrunner.testing.conformance FILE``: the checks of the cases in a file, a line each."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn
from unittest import SkipTest

from planrunner.testing.conformance.checks import Check, checks, load_cases


def main(path: str) -> int:
    """Run every check; 1 where one does not hold."""
    signal.signal(signal.SIGTERM, _end)
    failed = 0
    for check in checks(load_cases(path)):
        problem, skipped = _try(check)
        failed += bool(problem)
        sys.stdout.write(f"{'FAILED' if problem else 'skipped' if skipped else 'ok':<8}{check}{skipped}\n")
        sys.stdout.write("".join(f"        {line}\n" for line in problem.splitlines()))
        sys.stdout.flush()
    sys.stdout.write(f"{failed} failed\n" if failed else "all hold\n")
    return 1 if failed else 0


def _end(_number: int, _frame: object) -> NoReturn:
    """The worlds of the case under way are put away on the way out."""
    raise SystemExit(128 + signal.SIGTERM)


def _try(check: Check) -> tuple[str, str]:
    """What does not hold, and why it was not tried."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(Path(folder))
        except SkipTest as reason:
            return "", f" ({reason})"
        except AssertionError as error:
            return str(error) or "an assertion failed", ""
        except Exception as error:
            return f"{type(error).__name__}: {error}", ""
    return "", ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
