"""Runs of plans that stand in no file: planrunner has a model do one thing, and the journal keeps what was asked."""

from __future__ import annotations

import json
import os
from typing import Any

from planrunner.app.runs.execute import ExecRequest, Watch, execute
from planrunner.errors import Unready
from planrunner.machine.state import TaskState

Json = Any


def run_errand(
    plan: dict[str, Json], params: dict[str, str], project: str, state: str | None, watch: Watch
) -> tuple[str, TaskState]:
    """Run a plan of one task; gives the run and how its task stands. Raises as ``execute``."""
    name = os.path.join(project, f"{plan['plan']}.json")
    text = json.dumps(plan).encode()
    try:
        result = execute(ExecRequest(name, tuple(params.items()), state=state, vouched=True, text=text), watch)
    except Unready as unready:
        message = unready.message.replace(f"`{name}`", f"the run `{plan['title']}`")
        raise Unready(message, unready.way_out) from None
    return result.run_id, result.state.tasks[0]
