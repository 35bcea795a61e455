"""Whether the file of a plan has changed since a run of it began, or was revised last: a run keeps the plan it has."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import RunRevised, RunStarted


class Edited(NamedTuple):
    """The run, and the path of the plan file that differs now, as the caller would type it."""

    run_id: str
    path: str


def edited_plan(run: str, state_dir: str | None) -> Edited | None:
    """The edit that a run does not have; None where the file is as it was, or is gone. Raises NotFound."""
    journal = open_journal(find_state(None, state_dir), readonly=True)
    try:
        run_id = journal.find_run(run)
        last = None
        for entry in journal.entries(run_id):
            if isinstance(entry.event, (RunStarted, RunRevised)):
                last = entry.event
        if last is None:
            return None  # the command that goes on with it says so
        before = journal.plan(str(last.environment.get("text") or last.plan_digest)).text
    finally:
        journal.close()
    path = str(last.environment.get("plan", ""))
    try:
        with open(path, "rb") as file:
            now = file.read().removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return None
    if now == before.encode("utf-8", "surrogatepass"):
        return None
    near = os.path.relpath(path)
    return Edited(run_id, path if near.startswith(os.pardir) else near)
