"""The queue as it is kept: ``queue.db`` in the state directory, written by any number of processes.

What was asked for is durable when it is acknowledged, and so is what people say of it: a cancellation, a pause. What
the worker notes (taken, parked, done) is written without waiting for the disk: after a loss of power the journal tells
it again. Each item bears a seal that only the user's audit key makes, so that a task which gets at the file cannot ask
for runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from planrunner.app.queue.database import Database
from planrunner.app.queue.items import ENDS, OPEN, Act, Item, Pause, Status
from planrunner.caller import Principal, Workspace
from planrunner.errors import Hint, NextStep, NotFound, RecordMismatch, UsageError
from planrunner.frozen import EMPTY
from planrunner.journal.chain import known_chain
from planrunner.journal.records import only_match
from planrunner.jsontext import read_json, write_json
from planrunner.records import Struct

Json = Any

_ITEMS = (
    "SELECT number, run, plan, digest, request, asker, place, source, act, arguments, seal, priority, status, enqueued,"
    " begun, ended, wakes, reason, code, seen, ahead, carried FROM items"
)
_TURN = "ahead DESC, priority DESC, number"
_PLACES = "SELECT run FROM items WHERE status = 'waiting' ORDER BY"
_NOTE = "UPDATE items SET"
_BEHIND = "~"
"""Comes after every digest."""


def _key(key: str, asked: str) -> str | None:
    """A key as it is kept, with the digest of what was asked for under it: nothing else of an item tells that, once its
    run was asked for again in another way. None without a key."""
    return f"{key}\n{asked}" if key and asked else key or None


class Wish(Struct):
    """What is asked for. ``request`` are the fields of an ``ExecRequest`` that JSON can hold; ``text`` is the plan as
    it was read then. ``key`` makes it once; empty for none. ``asked`` is the digest of what was asked for with it."""

    run: str
    plan: str
    text: bytes
    digest: str
    request: dict[str, Json]
    by: Principal
    where: Workspace
    source: str
    priority: int = 0
    act: Act = "start"
    arguments: dict[str, Json] = EMPTY
    key: str = ""
    asked: str = ""
    seen: int = 0


class Task(Struct):
    """An item with all that is needed to act on it. ``had_turn`` is whether it was taken before, ``is_carried`` whether
    its act is known to have happened, ``ours`` whether its seal is the user's own."""

    item: Item
    request: dict[str, Json]
    where: Workspace
    arguments: dict[str, Json]
    seen: int
    had_turn: bool
    is_carried: bool
    ours: bool


class Store(Database):
    """The queue of a state directory. Raises as ``Database``."""

    __slots__ = ("_chain",)

    def __init__(self, state: str, readonly: bool = False) -> None:
        super().__init__(state, readonly)
        self._chain = known_chain(state)

    def add(self, wish: Wish, most: int | None = None) -> tuple[Item, bool]:
        """Put a wish into the queue, durably: its item, and whether it is new. Raises UsageError where ``most`` items
        wait already, and as ``with_key``."""
        with self.writing(durable=True):
            if wish.key and (known := self.with_key(wish.key, wish.asked)):
                return known, False
            if most is not None and (waiting := self._count("waiting")) >= most:
                raise _full(waiting)
            self.do("INSERT OR IGNORE INTO texts VALUES (?, ?)", wish.digest, wish.text)
            if self.ask("SELECT 1 FROM items WHERE run = ?", wish.run):
                self._again(wish)
            else:
                self._insert(wish)
            return self.task(wish.run).item, True

    def _insert(self, wish: Wish) -> None:
        sealed = _sealed(wish)
        self.do(
            "INSERT INTO items (run, key, plan, digest, request, asker, place, source, act, arguments, seal, priority,"
            " ahead, status, enqueued, seen, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'waiting', ?, ?, '')",
            *(wish.run, _key(wish.key, wish.asked), *sealed[1:], self._seal(sealed), wish.priority),
            *(time.time(), wish.seen),
        )

    def _again(self, wish: Wish) -> None:
        """What is wished for next of a run that has been in the queue: it comes at the end of those of its priority."""
        self.do("UPDATE items SET number = (SELECT max(number) FROM items) + 1 WHERE run = ?", wish.run)
        sealed = _sealed(wish)
        self.do(
            "UPDATE items SET plan = ?, digest = ?, request = ?, asker = ?, place = ?, source = ?, act = ?,"
            " arguments = ?, seal = ?, priority = ?, ahead = 0, carried = 0, status = 'waiting', enqueued = ?,"
            " ended = NULL, wakes = NULL, seen = ?, reason = '', code = NULL WHERE run = ?",
            *(*sealed[1:], self._seal(sealed), wish.priority, time.time(), wish.seen, wish.run),
        )

    def _seal(self, sealed: Sequence[str]) -> bytes | None:
        """What the key makes of a row; None while there is no key."""
        if self._chain.key is None:  # the first run of a user makes it
            self._chain = known_chain(self.state)
        return self._chain.seal("queue", *sealed)

    def task(self, run: str) -> Task:
        """The item of a run, with what it asks for. Raises NotFound."""
        rows = self.ask(f"{_ITEMS} WHERE run = ?", run)
        if not rows:
            raise _unknown(run)
        return self._task(rows[0])

    def tasks(self, *statuses: Status, limit: int = -1) -> list[Task]:
        """Items of these statuses in the order in which they are taken."""
        marks = ", ".join("?" * len(statuses))
        query = f"{_ITEMS} WHERE status IN ({marks}) ORDER BY {_TURN} LIMIT ?"
        return [self._task(row) for row in self.ask(query, *statuses, limit)]

    def page(self, statuses: Sequence[Status], limit: int, after: int) -> list[Item]:
        """Items as lists show them: what goes on, what waits in its order, what is parked, what is over with the last
        one first."""
        wanted = tuple(statuses) or (*OPEN, *ENDS.values())
        marks = ", ".join("?" * len(wanted))
        query = (
            f"{_ITEMS} WHERE status IN ({marks}) ORDER BY CASE status WHEN 'running' THEN 0"
            " WHEN 'waiting' THEN 1 WHEN 'parked' THEN 2 ELSE 3 END,"
            " CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN -coalesce(ended, 0) ELSE 0 END,"
            f" {_TURN} LIMIT ? OFFSET ?"
        )
        return [self._task(row).item for row in self.ask(query, *wanted, limit, after)]

    def with_key(self, key: str, asked: str = "") -> Item | None:
        """The item that was asked for under a key. Raises RecordMismatch where something else was ``asked`` with it, as
        far as both digests are known."""
        between = f"{key}\n", f"{key}\n{_BEHIND}"
        rows = self.ask(f"{_ITEMS.replace(' FROM', ', key FROM')} WHERE key = ? OR key BETWEEN ? AND ?", key, *between)
        if not rows:
            return None
        *row, stored = rows[0]
        before = stored[len(key) + 1 :]
        if before and asked and before != asked:
            raise RecordMismatch("this key was used for another request", "choose another key")
        return self._task(tuple(row)).item

    def find(self, wanted: str) -> str:
        """The run that people mean: ``last``, an id, the start of one, what follows its last hyphen, or the name of a
        plan with one run that is not over. Raises NotFound."""
        rows = self.ask("SELECT run FROM items WHERE run = ?", wanted)
        if not rows and wanted == "last":
            rows = self.ask("SELECT run FROM items ORDER BY number DESC LIMIT 1")
        if not rows and wanted:
            rows = self.ask(
                "SELECT run FROM items WHERE substr(run, 1, ?2) = ?1 OR substr(run, -?2 - 1) = '-' || ?1 LIMIT 9",
                *(wanted, len(wanted)),
            )
        if not rows:
            rows = [(run,) for run, plan in self.ask(_OPEN_RUNS) if plan_name(plan) == wanted]
        if not rows:
            raise _unknown(wanted)
        return only_match(wanted, [str(row[0]) for row in rows])

    def places(self) -> dict[str, int]:
        """How many items come before each that waits, by run."""
        rows = self.ask(f"{_PLACES} {_TURN}")
        return {row[0]: place for place, row in enumerate(rows)}

    def counts(self) -> dict[str, int]:
        """How many items there are of each status that has any."""
        return dict(self.ask("SELECT status, count(*) FROM items GROUP BY status"))

    def text(self, digest: str) -> bytes:
        """The text of a plan as it was asked for. Raises NotFound."""
        rows = self.ask("SELECT text FROM texts WHERE digest = ?", digest)
        if not rows:
            raise NotFound(f"the queue has no plan with the digest {digest}")
        return bytes(rows[0][0])

    def pause(self) -> Pause | None:
        """Whether the queue is paused, by whom and why."""
        rows = self.ask("SELECT who, at, reason FROM pauses")
        return Pause(*rows[0]) if rows else None

    def set_pause(self, pause: Pause | None) -> None:
        with self.writing(durable=True):
            self.do("DELETE FROM pauses")
            if pause is not None:
                self.do("INSERT INTO pauses VALUES (?, ?, ?)", *pause)

    def withdraw(self, run: str, reason: str) -> bool:
        """Cancel an item that waits for its first turn, durably; False where it has been taken by now."""
        with self.writing(durable=True):
            query = (
                "UPDATE items SET status = 'cancelled', ended = ?, reason = ?"
                " WHERE run = ? AND status = 'waiting' AND begun IS NULL"
            )
            return self.do(query, time.time(), reason, run) > 0

    def open_from(self, source: str) -> list[str]:
        """The runs from a source that are not over."""
        query = "SELECT run FROM items WHERE source = ? AND status IN ('waiting', 'running', 'parked') ORDER BY number"
        return [str(row[0]) for row in self.ask(query, source)]

    def begun_since(self, since: float) -> list[float]:
        """When runs began after ``since``, the first one first."""
        return [float(row[0]) for row in self.ask("SELECT begun FROM items WHERE begun > ? ORDER BY begun", since)]

    def note(self, run: str, status: Status, **fields: Json) -> None:
        """Write how an item stands; inside ``writing``."""
        names = ", ".join(f"{name} = ?" for name in ("status", *fields))
        self.do(f"{_NOTE} {names} WHERE run = ?", status, *fields.values(), run)

    def _count(self, status: Status) -> int:
        return int(self.ask("SELECT count(*) FROM items WHERE status = ?", status)[0][0])

    def _task(self, row: Sequence[Any]) -> Task:
        number, run, plan, digest, request, asker, place, source, act, arguments, seal, priority, *rest = row
        status, enqueued, begun, ended, wakes, reason, code, seen, ahead, carried = rest
        name, roles, proof = read_json(asker)
        by = Principal(name, tuple(roles), proof)
        asked = read_json(request)
        item = Item(
            *(number, run, plan, digest, dict(asked.get("params", ())), by, source, priority, act, status),
            *(enqueued, begun, ended, wakes, reason, code),
        )
        sealed = (run, plan, digest, request, asker, place, source, act, arguments)
        ours = seal == self._seal(sealed)
        return Task(item, asked, Workspace(*read_json(place)), read_json(arguments), seen, ahead > 0, carried > 0, ours)


def _full(waiting: int) -> UsageError:
    """The error for a queue that takes nothing more."""
    return UsageError(
        f"the queue is full: {waiting} runs wait, which is the most that `scheduler.max_queue_size` lets wait",
        Hint("wait for some, or take one out: ", NextStep("queue", "cancel", "RUN")),
    )


_OPEN_RUNS = "SELECT run, plan FROM items WHERE status NOT IN ('completed', 'failed', 'cancelled') ORDER BY number DESC"


def plan_name(path: str) -> str:
    """The name of a plan by its file: ``release`` for ``plans/release.plan.yaml``."""
    return os.path.basename(path).partition(".")[0]


def _unknown(run: str) -> NotFound:
    return NotFound(f"run `{run}` is not in the queue", Hint(NextStep("queue"), " lists what is"))


def _sealed(wish: Wish) -> tuple[str, ...]:
    """What of an item its seal covers."""
    return (
        *(wish.run, wish.plan, wish.digest, write_json(wish.request), write_json([*wish.by])),
        *(write_json([*wish.where]), wish.source, wish.act, write_json(wish.arguments)),
    )
