"""What the raw rows of a journal say of a run, read without anything of the machine that folds them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

Json = Any

UNKNOWN = "?"
"""A status that the rows alone do not tell."""
OUTSIDE = ("/", "#", "[", "@")
"""What follows the path of a task in the path of one that it holds."""


class Row(NamedTuple):
    """An event as it is stored: ``body`` without the fields that have their default."""

    seq: int
    at: float
    kind: str
    version: int
    body: dict[str, Json]


class Truth:
    """The figures of a run by its rows."""

    def __init__(self, rows: Sequence[Row], needs: Mapping[str, Sequence[str]]) -> None:
        self.rows = rows
        self.needs = needs
        self.early: list[tuple[str, str]] = []
        self.status = ""
        self.statuses: dict[str, str] = {}
        self.attempts: dict[str, set[int]] = {}
        self.open_gates: dict[tuple[str, int], Row] = {}
        self.holders = {row.body["task"] for row in rows if row.kind == "frame_opened"}
        self.forked = any(row.kind == "run_forked" for row in rows)
        self.revised = any(row.kind == "run_revised" for row in rows)
        for row in rows:
            getattr(self, f"_{row.kind}", _nothing)(row.body, row)

    @property
    def last(self) -> Row:
        return self.rows[-1]

    # what tasks came to

    def _task_settled(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = body["status"]
        if body["status"] != "blocked":
            self._close(body["task"])

    def _attempt_started(self, body: Json, row: Row) -> None:
        self.attempts.setdefault(body["task"], set()).add(body["attempt"])
        if self.statuses.get(body["task"], "pending") in ("pending", "queued", "blocked"):
            for need in self.needs.get(body["task"], ()):
                if self.statuses.get(need, "pending") in ("pending", "queued", "running", "blocked", "in_doubt"):
                    self.early.append((body["task"], need))
        self.statuses[body["task"]] = "running"

    def _attempt_ended(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = UNKNOWN

    _retry_scheduled = _doubt_settled = _attempt_ended

    def _gate_requested(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = "blocked"

    def _task_queued(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = "queued"

    def _tasks_reset(self, body: Json, row: Row) -> None:
        for task in (*body["tasks"], *body.get("unless_same", ())):
            for path in [path for path in self.statuses if is_within(path, task)]:
                self.statuses[path] = UNKNOWN
            self._close(task)
        for path in self.holders & self.statuses.keys():
            self.statuses[path] = UNKNOWN  # what holds one of them is open again

    def _frame_opened(self, body: Json, row: Row) -> None:
        if body["attempt"] > 1:
            for path in [path for path in self.statuses if path != body["task"] and is_within(path, body["task"])]:
                self.statuses[path] = UNKNOWN  # an earlier attempt of the holder had it

    def _undo_settled(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = UNKNOWN

    def _failure_resolved(self, body: Json, row: Row) -> None:
        self.statuses[body["task"]] = UNKNOWN

    # what the run came to

    def _run_started(self, body: Json, row: Row) -> None:
        self.status = "running"

    def _run_ended(self, body: Json, row: Row) -> None:
        self.status = body["status"]
        self.open_gates.clear()

    def _run_parked(self, body: Json, row: Row) -> None:
        self.status = "parked"

    def _run_resumed(self, body: Json, row: Row) -> None:
        self.status = "running"

    def _run_reopened(self, body: Json, row: Row) -> None:
        self.status = "parked"

    def _run_forked(self, body: Json, row: Row) -> None:
        self.status = "parked"
        for path in self.statuses:
            self.statuses[path] = UNKNOWN
        self.open_gates.clear()

    def _run_revised(self, body: Json, row: Row) -> None:
        self._run_forked(body, row)

    # what people are asked

    def _gate_opened(self, body: Json, row: Row) -> None:
        self.open_gates[body["task"], body["visit"]] = row
        self.statuses[body["task"]] = UNKNOWN

    def _gate_decided(self, body: Json, row: Row) -> None:
        self.open_gates.pop((body["task"], body["visit"]), None)
        self.statuses[body["task"]] = UNKNOWN

    def _close(self, task: str) -> None:
        for key in [key for key in self.open_gates if is_within(key[0], task)]:
            del self.open_gates[key]

    # figures

    def spent(self, what: str) -> float:
        """Used of what is counted, by what attempts and judges told; what they did not tell counts as set aside."""
        total, reserved = 0.0, dict[Json, float]()
        for kind, body in ((row.kind, row.body) for row in self.rows):
            key = (kind.partition("_")[0], body.get("task"), body.get("attempt", body.get("visit")))
            if kind in ("attempt_started", "undo_started", "gate_requested"):
                reserved[key] = float(body.get("reserved", {}).get(what, 0))
            elif kind in ("attempt_ended", "undo_ended", "gate_examined"):
                usage = (body if kind == "gate_examined" else body.get("outcome", {})).get("usage", {})
                total += float(usage.get(what, reserved.get(key, 0)) or 0)
        return total

    def most_at_once(self) -> int:
        """How many attempts of tasks that hold no others were under way at once."""
        under_way: set[str] = set()
        most = 0
        for row in self.rows:
            task = row.body.get("task", "")
            if row.kind == "attempt_started" and task not in self.holders:
                under_way.add(task)
                most = max(most, len(under_way))
            elif row.kind in ("attempt_ended", "task_settled", "doubt_settled"):
                under_way.discard(task)
            elif row.kind in ("run_resumed", "run_forked", "run_ended"):
                under_way.clear()
        return most


def _nothing(body: Json, row: Row) -> None:
    """Most kinds say nothing of what is counted here."""


def is_within(path: str, task: str) -> bool:
    """Whether a path is that of a task or of one inside it."""
    return path == task or (path.startswith(task) and path[len(task)] in OUTSIDE)


def needs_of(project: Path, run: str) -> dict[str, list[str]]:
    """What the tasks of the plan of a run wait for, by its text: those of its first level that need all of a list."""
    with closing(_store(project)) as store:
        asked = "SELECT text FROM runs JOIN plans ON plan_digest = digest WHERE run = ?"
        [text] = store.execute(asked, (run,)).fetchone() or ("",)
    try:
        plan = YAML(typ="safe", pure=True).load(text)
        tasks = [task for task in plan["tasks"] if isinstance(task, dict)]
    except (YAMLError, TypeError, KeyError):
        return {}  # another notation
    led_to = json.dumps([{**task, "needs": []} for task in tasks], default=str)
    return {
        task["id"]: task["needs"]
        for task in tasks
        if isinstance(task.get("needs"), list)
        and task.get("join", "all") == "all"
        and f'"{task["id"]}"' not in led_to.replace(f'"id": "{task["id"]}"', "")
        and not any("*" in str(need) for need in task["needs"])
    }


def _store(project: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{project / '.planrunner' / 'journal.db'}?mode=ro", uri=True)


def rows_of(project: Path, run: str) -> Iterator[Row]:
    """The rows of a run, straight from the file."""
    with closing(_store(project)) as store:
        asked = store.execute("SELECT seq, at, kind, version, body FROM events WHERE run = ? ORDER BY seq", (run,))
        for *head, body in asked:
            yield Row(*head, json.loads(body))
