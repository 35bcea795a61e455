"""Real runs that keep files, killed with SIGKILL at every journal write: every checkpoint is there in the end, holds
what the task or the round had left, and nothing that comes after began before it was."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from simulator.crashes import die_at, in_child

from planrunner import errors
from planrunner.app.history.state import stored_plan, stored_state
from planrunner.app.proof.promises import check_checkpoints
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.engine.replay import replay
from planrunner.files import snapshot
from planrunner.journal.sqlite import open_journal
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import CheckpointTaken

BOTH = (False, True) if int(os.environ.get("PLANRUNNER_KILLED_PLANS", "10")) > 10 else ()
"""Before each write and after it, where there is time; else the one or the other in turn."""


def acting(name: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": 'echo "$PLANRUNNER_TASK" > now', "effect": "idempotent", "timeout": "1m", **keys}


def write_plan(folder: Path) -> Path:
    draft = acting("draft")
    items = acting("item")
    document = {
        "plan": "kept",
        "max_parallel": 1,
        "tasks": [
            acting("first", checkpoint=True),
            {
                "id": "polish",
                "needs": ["first"],
                "loop": {"max": 5, "checkpoint": 2, "tasks": [draft]},
                "checkpoint": True,
            },
            {**items, "needs": ["polish"], "foreach": [1, 2], "checkpoint": {"paths": ["now"]}},
            acting("last", needs=["item"], checkpoint=True),
        ],
    }
    (folder / ".planrunner").mkdir()
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path


EXPECTED = {
    ("first", 0): "first",
    ("polish", 2): "polish#2/draft",
    ("polish", 4): "polish#4/draft",
    ("polish", 0): "polish#5/draft",
    ("item", 0): "item[1]",
    ("last", 0): "last",
}
"""What the file held when each checkpoint was taken."""


def counting(folder: Path, write: int, stored: bool) -> None:
    """From now on this process dies at its ``write``-th append, before it or right after."""
    die_at(write, stored=stored, told=lambda count, _: note(folder, count), of=["append"])


def note(folder: Path, count: int) -> None:
    (folder / ".planrunner" / "writes").write_text(str(count))


def run(path: Path) -> int:
    return execute(
        ExecRequest(str(path), state=str(path.parent / ".planrunner"), seed=1, vouched=True), Silent()
    ).exit_code


def finish(folder: Path) -> None:
    state = str(folder / ".planrunner")
    for _ in range(3):
        journal = open_journal(state)
        try:
            if stored_state(journal, journal.runs()[0].run).ended_at is not None:
                return
        finally:
            journal.close()
        assert in_child(lambda: resume("last", (), state, Silent()).exit_code) == errors.OK
    raise AssertionError("the run does not come to an end")


def check(folder: Path) -> None:
    journal = open_journal(str(folder / ".planrunner"))
    try:
        row = journal.runs()[0]
        entries, plan = list(journal.entries(row.run)), stored_plan(journal, row.plan_digest)
        state = stored_state(journal, row.run)
    finally:
        journal.close()
    assert state.status == "completed"
    check_checkpoints(state, entries)
    assert replay(plan, row.run, entries).difference is None
    store = ArtifactStore(str(folder / ".planrunner"))
    held = {}
    for entry in entries:
        if isinstance(entry.event, CheckpointTaken):
            piece = snapshot.read(store, entry.event.files).states["now"]
            held[entry.event.task, entry.event.round] = store.read(piece.sha256).decode().strip()
    assert held == EXPECTED


@pytest.mark.limit(600)
def test_killed_at_every_write_a_run_has_every_checkpoint_in_the_end(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    path = write_plan(calm)
    assert in_child(lambda: (counting(calm, 0, False), run(path))[1]) == errors.OK
    check(calm)
    writes = int((calm / ".planrunner" / "writes").read_text())
    assert writes > 15
    for write in range(1, writes + 1):
        for stored in BOTH or (bool(write % 2),):
            folder = tmp_path / f"{write}-{stored}"
            folder.mkdir()
            path = write_plan(folder)
            code = in_child(lambda: (counting(folder, write, stored), run(path))[1])  # noqa: B023
            if code == -signal.SIGKILL:
                finish(folder)
                check(folder)
