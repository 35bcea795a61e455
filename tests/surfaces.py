"""Runs with everything that a surface may have to show: every status of a task and of a run, logs that are cut,
names and texts of every kind, and big values."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import get_args

from planrunner.engine.output import log_name
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.stores import open_journal
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    DoubtSettled,
    Entry,
    Event,
    GateExamined,
    GateOpened,
    GateRequested,
    Outcome,
    RetryScheduled,
    RollbackEnded,
    RollbackStarted,
    RunEnded,
    RunParked,
    RunStarted,
    TaskQueued,
    TaskSettled,
    TaskStatus,
    UndoEnded,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

AT = 1_700_000_000.0
ODD = "Ünïcödé ☃ \u202eright <script>alert(1)</script> 'quoted' \"twice\" `ticks` {{ braces }} " + "very " * 20 + "long"
BIG = {
    "number": 10**30,
    "fraction": 1e300,
    "text": "x" * 20_000,
    "list": list(range(500)),
    "deep": [[[[[[{"a": {"b": None}}]]]]]],
    "": "<b>",
    "markup": "</script><script>alert(1)</script>",
}
LOG = "".join(f"{number} {ODD}\n" for number in range(1_500)) + "\x1b[31mred\x1b[0m \udcff".encode(
    "utf-8", "surrogateescape"
).decode("latin-1")

STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
ENDS: dict[str, tuple[Event, ...]] = {
    "running": (),
    "paused": (RunParked("pause"),),
    "blocked": (RunParked("gate", ("blocked",)),),
    "completed": (RunEnded("completed", "", BIG),),
    "failed": (RunEnded("failed", "outputs", {}, ODD),),
    "cancelled": (RunEnded("cancelled"),),
}
"""The last events of a run, by the status that it has then."""


def text() -> str:
    """A plan with a task for each status that a task can have."""
    tasks = [
        {"id": task_id(status), "title": f"{status} {ODD}", "description": ODD, "run": "echo hi", "timeout": "1m"}
        for status in STATUSES
    ]
    next(task for task in tasks if task["id"] == task_id("rolled_back"))["rollback"] = {"run": "echo undo"}
    gate = next(task for task in tasks if task["id"] == task_id("blocked"))
    del gate["run"], gate["timeout"]
    gate["gate"], gate["ask"] = "approval", "go?"
    return json.dumps({"plan": "surfaces", "title": ODD, "tasks": tasks})


def task_id(status: TaskStatus) -> str:
    return status.replace("_", "-")


def make_runs(folder: Path) -> dict[str, str]:
    """The runs in the state directory of a folder, by the status of each."""
    (folder / "plans").mkdir(parents=True)
    (folder / "plans" / "surfaces.yaml").write_text(text())
    source = Source(text(), str(folder / "plans" / "surfaces.yaml"), "yaml")
    plan = load(source, Registry()).plan
    assert plan is not None
    runs = {}
    with closing(open_journal(str(folder / ".planrunner"))) as journal:
        for number, (status, ends) in enumerate(ENDS.items()):
            run = runs[status] = f"20231114-22{number:02}-abc123"
            entries = _entries(plan, run, ends)
            stored = StoredPlan("digest", source.text, source.name, "yaml")
            lease = journal.create_run(NewRun(run, "surfaces", "digest", AT + number, stored))
            journal.append(lease, entries)
            journal.release(lease)
            logs = folder / ".planrunner" / "logs" / run
            logs.mkdir(parents=True)
            for task in STATUSES:
                (logs / log_name(task_id(task), 1)).write_bytes(LOG.encode("latin-1", "replace"))
    return runs


def _entries(plan: Plan, run: str, ends: tuple[Event, ...]) -> list[Entry]:
    environment = {"user": ODD, "host": ODD, "git": ODD, "directory": "/"}
    events: list[Event] = [RunStarted("digest", {"big": BIG}, 7, environment=environment)]
    for status in STATUSES:
        events += _story(status, run)
    state = State(plan, run)
    entries = []
    for seq, event in enumerate([*events, *ends], 1):
        evolve(state, event, AT + seq)
        entries.append(Entry(seq, AT + seq, event))
    told = {task.id: task_state.status for task, task_state in zip(state.specs, state.tasks, strict=True)}
    assert told == {task_id(status): status for status in STATUSES}
    return entries


def _story(status: TaskStatus, run: str) -> list[Event]:
    """What a task went through to come to a status."""
    task = task_id(status)
    started = AttemptStarted(task, 1, f"{run}:{task}:1", undo=status == "rolled_back")
    well = AttemptEnded(task, 1, Outcome(outputs=BIG, exit_code=0, duration=1e6, stdout=ODD, usage={"cost": 1e9}))
    asked = {"kind": "approval", "ask": ODD, "inputs": BIG, "words": [ODD]}
    diff = {"kind": "text", "name": ODD, "digest": "sha256:00", "text": ODD * 50}
    done = [started, well, TaskSettled(task, "completed")]
    if status in ("pending", "queued"):
        return [TaskQueued(task)] if status == "queued" else []
    if status in ("skipped", "omitted"):
        return [TaskSettled(task, status, "when", ODD)]
    if status == "blocked":
        return [
            GateRequested(task, 1, "gate", 0, asked),
            GateExamined(task, 1, (diff,)),
            GateOpened(task, 1, 0, "gate", "approval", ODD, "0" * 64, evidence=(diff,), roles=(ODD,), people=(ODD,)),
        ]
    if status == "abandoned":
        return [TaskSettled(task, "blocked", "budget", ODD), TaskSettled(task, "abandoned", "request", ODD)]
    if status == "failed":
        first = AttemptEnded(task, 1, Outcome("transient", ODD, {}, 1, 1.0, "out\n" * 400, ODD * 10))
        again = AttemptStarted(task, 2, f"{run}:{task}:2")
        second = AttemptEnded(task, 2, Outcome("own", ODD, {}, 255, 0.0, "", ODD))
        settled = TaskSettled(task, "failed", "failed", ODD, "logic")
        return [started, first, RetryScheduled(task, 1, AT, "transient"), again, second, settled]
    if status == "cancelled":
        return [started, AttemptEnded(task, 1, Outcome("cancelled", ODD)), TaskSettled(task, "cancelled", "ended", ODD)]
    if status == "in_doubt":
        doubt = DoubtSettled(task, 1, "unknown")
        return [started, doubt, TaskSettled(task, "in_doubt", "ask", ODD)]
    if status == "rolled_back":
        undo = UndoStarted(task, 1, f"{run}:{task}:undo:1", 0)
        ended = [UndoEnded(task, 1, Outcome()), UndoSettled(task, 0, "undone", ODD), RollbackEnded("rolled_back")]
        return [*done, RollbackStarted("person", (task,), (0,), by=ODD), undo, *ended]
    return [started] if status == "running" else done
