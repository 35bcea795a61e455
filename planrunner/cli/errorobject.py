"""An error of a call under ``--json``, as an object of ``schemas/run.schema.json``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from json import dumps
from typing import Any


def write_error(
    arguments: Sequence[str], message: str, hint: str, code: int, findings: list[dict[str, Any]] | None = None
) -> None:
    """The error as an object on standard output, for a call that asks for JSON there."""
    if "--json" not in arguments:
        return
    error: dict[str, Any] = {"message": message, "hint": hint, "exit_code": code}
    if findings is not None:
        error["findings"] = findings
    try:
        sys.stdout.write(dumps({"format": 1, "error": error}, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        pass  # it stands on standard error
