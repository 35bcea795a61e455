"""The journal in memory, for dry runs, simulation and tests: the same promises until the process ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from planrunner.errors import Fenced, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.journal.records import (
    Answer,
    Holder,
    Lease,
    NewRun,
    Request,
    RunRow,
    StoredPlan,
    check_order,
    ending,
    no_match,
    only_match,
)
from planrunner.machine.events import Entry

Fault = Callable[[int, Literal["before", "after"]], None]
"""Called around the n-th write (from 1; ``create_run`` counts); what it raises comes out of that write. ``after`` means
stored but not acknowledged, as when a process dies between the two."""


class MemoryJournal:
    """``fault`` makes writes fail; ``crash`` does to it what the death of its process does to a journal on disk."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.notices: tuple[str, ...] = ()
        self.unchained = ""
        self._writes = 0
        self._rows: dict[str, RunRow] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._plans: dict[str, StoredPlan] = {}
        self._compiled: dict[str, bytes] = {}
        self._held: dict[str, Lease] = {}
        self._requests: list[tuple[str, Request, Answer | None]] = []
        self._seen = -1

    def create_run(self, new: NewRun, entries: Sequence[Entry] = ()) -> Lease:
        check_order(entries, 1)
        if new.run in self._rows:
            raise UsageError(f"there is a run `{new.run}` already")
        handle = Lease(new.run, 1, len(entries), lock=0)
        self._write(lambda: self._insert(new, entries))
        self._held[new.run] = handle
        return handle

    def append(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]] = ()) -> None:
        if not (entries or answers):
            return
        if run.broken or run.lock < 0:
            raise StorageFailed(f"run `{run.run}` is not written to any more after a failure")
        check_order(entries, run.last_seq + 1)
        try:
            self._write(lambda: self._advance(run, entries, answers))
        except BaseException:
            run.broken = True
            raise
        run.last_seq += len(entries)

    def require_there(self, run: str) -> None:
        """It is gone with the process alone."""

    def entries(self, run: str, after: int = 0) -> Iterator[Entry]:
        stored = self._entries.get(run, [])
        while after < len(stored):
            yield stored[after]
            after += 1

    def runs(self, limit: int = 100, offset: int = 0) -> list[RunRow]:
        newest = list(reversed(self._rows))
        return [self.run(run) for run in newest[offset : offset + limit]]

    def run(self, run: str) -> RunRow:
        if run not in self._rows:
            raise no_match(run, list(self._rows))
        return self._rows[run]._replace(leased=self.is_leased(run))

    def find_run(self, wanted: str) -> str:
        if wanted == "last" and self._rows:
            return next(reversed(self._rows))
        if wanted in self._rows:
            return wanted
        newest = list(reversed(self._rows))
        if run := next((run for run in newest if self._rows[run].plan_id == wanted), ""):
            return run
        for matches in (
            [run for run in newest if run.startswith(wanted)],
            [run for run in newest if run.endswith(f"-{wanted}")],
        ):
            if matches and wanted:
                return only_match(wanted, matches)
        raise no_match(wanted, [*newest, *dict.fromkeys(row.plan_id for row in self._rows.values())])

    def acquire(self, run: str) -> Lease:
        row = self.run(run)
        if row.leased:
            raise RunHeld(f"run `{run}` is held by this process")
        self._rows[run] = row._replace(epoch=row.epoch + 1)
        self._held[run] = Lease(run, row.epoch + 1, row.last_seq, lock=0)
        return self._held[run]

    def renew(self, run: Lease) -> None:
        if run.lock < 0:
            raise StorageFailed(f"run `{run.run}` was released")
        if self._rows[run.run].epoch != run.epoch:
            raise _overtaken(run)

    def holders(self) -> list[Holder]:
        return [Holder(run, "this process", self._rows[run].created) for run in sorted(self._held)]

    def release(self, run: Lease) -> None:
        run.lock = -1
        if self._held.get(run.run) is run:
            del self._held[run.run]

    def is_leased(self, run: str) -> bool:
        return run in self._held

    def post(self, run: str, request: Request) -> int:
        number = len(self._requests) + 1
        self._requests.append((run, request._replace(id=number), None))
        return number

    def waiting(self, run: str) -> list[Request]:
        return [request for asked, request, answer in self._requests if asked == run and answer is None]

    def answered(self, request: int) -> Answer | None:
        if not 0 < request <= len(self._requests):
            raise NotFound(f"there is no request {request} in the journal")
        return self._requests[request - 1][2]

    def touched(self) -> bool:
        before, self._seen = self._seen, len(self._requests)
        return before != self._seen

    def plan(self, digest: str) -> StoredPlan:
        if digest not in self._plans:
            raise NotFound(f"there is no plan with digest `{digest}` in the journal")
        return self._plans[digest]

    def keep_plan(self, plan: StoredPlan) -> None:
        self._plans.setdefault(plan.digest, plan)

    def compiled_get(self, key: str) -> bytes | None:
        return self._compiled.get(key)

    def compiled_put(self, key: str, value: bytes) -> None:
        self._compiled[key] = value

    def close(self) -> None:
        """Nothing to do: there is no file."""

    def crash(self) -> None:
        """Free every lock without a word to its holder, who finds out when it writes after the next ``acquire``."""
        self._held.clear()

    def _write(self, store: Callable[[], None]) -> None:
        self._writes += 1
        if self.fault is not None:
            self.fault(self._writes, "before")
        store()
        if self.fault is not None:
            self.fault(self._writes, "after")

    def _insert(self, new: NewRun, entries: Sequence[Entry]) -> None:
        if new.plan is not None:
            self.keep_plan(new.plan)
        row = RunRow(new.run, new.plan_id, new.plan_digest, new.created, 1, 0)
        self._rows[new.run] = row
        self._entries[new.run] = []
        self._extend(row, entries)

    def _advance(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]]) -> None:
        row = self._rows[run.run]
        if (row.epoch, row.last_seq) != (run.epoch, run.last_seq):
            raise _overtaken(run)
        if entries:
            self._extend(row, entries)
        for number, answer in answers:
            asked, request, known = self._requests[number - 1]
            self._requests[number - 1] = (asked, request, known or answer)

    def _extend(self, row: RunRow, entries: Sequence[Entry]) -> None:
        self._entries[row.run].extend(entries)
        status, ended = ending(entries)
        self._rows[row.run] = row._replace(last_seq=row.last_seq + len(entries), status=status, ended=ended)


def _overtaken(run: Lease) -> Fenced:
    return Fenced(f"another runner took over run `{run.run}`; this one stops writing")
