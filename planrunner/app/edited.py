"""Whether the file of a plan is another by now than when a run of it began: a run keeps the plan it has."""

from __future__ import annotations

import os

from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import RunStarted
from planrunner.record import NamedTuple


class Edited(NamedTuple):
    """The run, and the path of the plan file that differs now, as the caller would type it."""

    run_id: str
    path: str


def edited_plan(run: str, state_dir: str | None) -> Edited | None:
    """The edit that a run which goes on leaves for the next one; None where the file is as it was, or is gone. Raises
    NotFound."""
    journal = open_journal(find_state(None, state_dir), readonly=True)
    try:
        run_id = journal.find_run(run)
        first = next(journal.entries(run_id), None)
        before = journal.plan(journal.run(run_id).plan_digest).text
    finally:
        journal.close()
    if first is None or not isinstance(first.event, RunStarted):
        return None  # whoever goes on with it is told
    path = str(first.event.environment.get("plan", ""))
    try:
        with open(path, "rb") as file:
            now = file.read().removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return None
    if now == before.encode("utf-8", "surrogatepass"):
        return None
    near = os.path.relpath(path)
    return Edited(run_id, path if near.startswith(os.pardir) else near)
