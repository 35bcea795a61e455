"""What the commands that steer a run share: telling the answer."""

from __future__ import annotations

import sys
from json import dumps

from planrunner.app.control import Steered
from planrunner.errors import NO_PLAN, OK, NotFound, UsageError


def tell(sentence: str) -> None:
    """Say on standard error why there is no answer yet."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def note(steered: Steered) -> None:
    """Tell what else came up when a run was asked."""
    for notice in steered.notices:
        tell(f"note: {notice}")


def report_steered(steered: Steered, as_json: bool) -> int:
    """Tell what became of a request; raises UsageError where it was refused, NotFound for a task that there is not."""
    note(steered)
    if not steered.answer.applied:
        kind = NotFound if steered.answer.code == NO_PLAN else UsageError
        raise kind(f"run {steered.run_id}: {steered.answer.message}", f"planrunner show {steered.run_id}")
    if as_json:
        found = {
            "format": 1,
            "run_id": steered.run_id,
            "applied": True,
            "message": steered.answer.message,
            "held": steered.held,
            "ended": steered.ended or None,
        }
        sys.stdout.write(dumps(found, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"run {steered.run_id}: {steered.answer.message}\n")
    return OK
