"""What the commands that steer a run share: telling the answer, and carrying a run to its end."""

from __future__ import annotations

import sys

from planrunner.app.control import Steered
from planrunner.cli.settings import Settings
from planrunner.errors import NO_PLAN, OK, NotFound, RunHeld, UsageError


def tell(sentence: str) -> None:
    """Say on standard error why there is no answer yet."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def note(steered: Steered) -> None:
    """Tell what else came up when a run was asked."""
    for notice in steered.notices:
        tell(f"note: {notice}")


def report(steered: Steered, as_json: bool) -> int:
    """Tell what became of a request; raises UsageError where it was refused, NotFound for a task that there is not."""
    note(steered)
    if not steered.answer.applied:
        kind = NotFound if steered.answer.code == NO_PLAN else UsageError
        raise kind(f"run {steered.run_id}: {steered.answer.message}", f"planrunner show {steered.run_id}")
    if as_json:
        from json import dumps

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


def finish(given: Settings, steered: Steered) -> Steered:
    """Drive a run that nobody holds from what was asked of it to its end; how it stands then."""
    from planrunner.app.resuming import resume
    from planrunner.cli.running import watch

    try:
        result = resume(steered.run_id, (), given.state, watch(given, "auto"))
    except RunHeld:
        return steered._replace(held=True)  # another process was quicker and goes on with what was asked
    except UsageError:
        from planrunner.app.inspect import look  # late: hardly anybody is overtaken

        ended = look(steered.run_id, given.state).row.status
        if not ended:
            raise
        return steered._replace(ended=ended)  # another process was quicker and is done with it
    return steered._replace(ended=result.status if result.state.ended_at is not None else "")
