"""The process in which hypothesis writes tests of the project's code, which it has to import for that. It is started as
a script, by whatever interpreter the project uses: the order comes as JSON on standard input, the text goes as JSON to
standard output."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from typing import Any


def main() -> int:
    """Write the tests that the order asks for; 1 where the code cannot be imported, with the reason."""
    order = json.load(sys.stdin)
    sys.path[0] = order["directory"]
    with contextlib.redirect_stdout(sys.stderr):
        try:
            ghostwriter = importlib.import_module("hypothesis.extra.ghostwriter")
            text = ghostwriter.magic(*_targets(order["module"], order["functions"]), style="pytest")
        except BaseException as error:  # whatever the project's code raises, SystemExit included
            sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())[:2000]}\n")
            return 1
    json.dump(text, sys.stdout)
    return 0


def _targets(name: str, functions: list[str]) -> list[Any]:
    module = importlib.import_module(name)
    missing = [function for function in functions if not callable(getattr(module, function, None))]
    if missing:
        raise LookupError(f"`{name}` has no function `{missing[0]}`")
    return [getattr(module, function) for function in functions] or [module]


if __name__ == "__main__":
    sys.exit(main())
