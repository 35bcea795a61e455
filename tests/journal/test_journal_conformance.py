"""What every journal promises: the one on disk, the one in memory, and one over a connection of DB-API."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pgvector
import pytest
from dbapi_journal import DatabaseJournal

from planrunner.errors import Fenced, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.journal.memory import MemoryJournal
from planrunner.journal.ports import JournalPort
from planrunner.journal.records import Answer, NewRun, Request, RunRow, StoredPlan
from planrunner.journal.stores import open_journal
from planrunner.machine.events import Entry, LeftAlone, RunEnded, RunResumed, RunStarted, TaskQueued
from planrunner.records import astuple

if TYPE_CHECKING:
    from planrunner.machine.events import Event

Open = Callable[[], JournalPort]
START = RunStarted("digest", {"ref": "HEAD"}, 7)


JOURNALS: dict[str, Callable[[Path], JournalPort]] = {
    "sqlite": lambda folder: open_journal(str(folder / "state")),
    "address": lambda folder: open_journal(f"file://{folder}/state"),
    "memory": lambda _: MemoryJournal(),
    "db-api": lambda _: DatabaseJournal(sqlite3.connect(":memory:")),
    "postgresql": lambda _: open_journal(pgvector.empty_database()),
}
"""A store passes all tests of this file once it has a line here."""


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow) if name == "postgresql" else name for name in JOURNALS]
)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalPort]:
    opened = JOURNALS[request.param](tmp_path)
    yield opened
    opened.close()


def new(run: str, created: float = 1.0, plan: StoredPlan | None = None) -> NewRun:
    return NewRun(run, "release-check", "digest", created, plan)


def numbered(after: int, *events: Event) -> list[Entry]:
    return [Entry(seq, seq + 0.5, event) for seq, event in enumerate(events, after + 1)]


def test_a_run_reads_back_what_was_appended_in_order(journal: JournalPort) -> None:
    first, second = numbered(0, START, TaskQueued("a")), numbered(2, TaskQueued("b"))
    handle = journal.create_run(new("r1"), first)
    journal.append(handle, second)
    assert list(journal.entries("r1")) == first + second
    assert handle.last_seq == 3


def test_an_entry_keeps_its_turn(journal: JournalPort) -> None:
    entries = [entry._replace(turn=2) for entry in numbered(1, LeftAlone(), TaskQueued("a"))]
    journal.append(journal.create_run(new("r1"), numbered(0, START)), entries)
    first, *others = journal.entries("r1")
    assert others == entries
    assert [first.shares_turn(entry) for entry in others] == [None, None]
    assert others[0].shares_turn(others[1])


def test_entries_can_be_read_from_any_place_on(journal: JournalPort) -> None:
    entries = numbered(0, START, *(TaskQueued(f"t{number}") for number in range(1500)))
    journal.create_run(new("r1"), entries)
    assert list(journal.entries("r1", after=700)) == entries[700:]
    assert list(journal.entries("r1", after=1501)) == []
    assert list(journal.entries("unknown")) == []


def test_runs_do_not_see_the_entries_of_each_other(journal: JournalPort) -> None:
    one = journal.create_run(new("r1"), numbered(0, START))
    journal.create_run(new("r2"), numbered(0, START, TaskQueued("x")))
    journal.append(one, numbered(1, TaskQueued("y")))
    assert [entry.event for entry in journal.entries("r1")] == [START, TaskQueued("y")]


def test_an_append_of_nothing_changes_nothing(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"))
    journal.append(handle, [])
    assert (handle.last_seq, journal.run("r1").last_seq) == (0, 0)


@pytest.mark.parametrize("wrong", [[2, 3], [1, 3], [1, 1], [0]])
def test_gaps_and_repetitions_in_the_numbers_are_refused(journal: JournalPort, wrong: list[int]) -> None:
    handle = journal.create_run(new("r1"))
    with pytest.raises(ValueError, match="follows"):
        journal.append(handle, [Entry(seq, 0.0, TaskQueued("a")) for seq in wrong])
    journal.append(handle, numbered(0, START))
    assert [entry.seq for entry in journal.entries("r1")] == [1]


def test_an_id_is_given_once(journal: JournalPort) -> None:
    journal.create_run(new("r1"), numbered(0, START))
    with pytest.raises((UsageError, RunHeld)):
        journal.create_run(new("r1"))
    assert len(list(journal.entries("r1"))) == 1


def test_a_released_run_of_that_id_is_not_made_again(journal: JournalPort) -> None:
    journal.release(journal.create_run(new("r1"), numbered(0, START)))
    with pytest.raises(UsageError, match="`r1` already"):
        journal.create_run(new("r1"))
    assert not journal.is_leased("r1")
    assert len(list(journal.entries("r1"))) == 1


def test_a_run_is_held_until_it_is_released(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"))
    assert journal.is_leased("r1")
    assert journal.run("r1").leased
    with pytest.raises(RunHeld, match="`r1` is held by"):
        journal.acquire("r1")
    journal.release(handle)
    assert not journal.is_leased("r1")
    assert not journal.runs()[0].leased


def test_holding_again_raises_the_epoch_and_goes_on_where_the_run_is(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START))
    journal.release(handle)
    again = journal.acquire("r1")
    assert (again.epoch, again.last_seq) == (2, 1)
    journal.append(again, numbered(1, RunResumed(again.epoch)))
    assert journal.run("r1").epoch == 2


def test_a_lease_is_renewed_until_another_process_has_the_run(journal: JournalPort) -> None:
    stale = journal.create_run(new("r1"), numbered(0, START))
    journal.renew(stale)
    journal.release(stale)
    with pytest.raises(StorageFailed, match="released"):
        journal.renew(stale)
    fresh = journal.acquire("r1")
    journal.renew(fresh)
    stale.lock = 0
    with pytest.raises(Fenced):
        journal.renew(stale)
    stale.lock = -1
    journal.release(fresh)


def test_holders_are_told_by_run(journal: JournalPort) -> None:
    leases = [journal.create_run(new(run)) for run in ("r2", "r1")]
    assert [holder.run for holder in journal.holders()] == ["r1", "r2"]
    assert all(holder.process for holder in journal.holders())
    journal.release(leases[0])
    assert [holder.run for holder in journal.holders()] == ["r1"]


def test_nothing_is_written_through_a_released_handle(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"))
    journal.release(handle)
    journal.release(handle)
    with pytest.raises(StorageFailed):
        journal.append(handle, numbered(0, START))
    assert list(journal.entries("r1")) == []


def test_an_unknown_run_cannot_be_held_and_the_nearest_is_named(journal: JournalPort) -> None:
    journal.create_run(new("20261121-2259-k3f9qz"))
    with pytest.raises(NotFound, match="no run `20261121-2259-k3f9qx`") as caught:
        journal.acquire("20261121-2259-k3f9qx")
    assert "`20261121-2259-k3f9qz`" in caught.value.hint
    assert not journal.is_leased("20261121-2259-k3f9qx")


def test_the_status_of_a_run_is_known_once_its_last_event_is_its_end(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START))
    assert astuple(journal.run("r1"))[5:8] == (1, "", None)
    journal.append(handle, numbered(1, RunEnded("failed")))
    assert astuple(journal.run("r1"))[5:8] == (2, "failed", 2.5)
    journal.append(handle, numbered(2, RunResumed(2)))
    assert astuple(journal.run("r1"))[5:8] == (3, "", None)


def test_runs_are_listed_newest_first_and_by_pages(journal: JournalPort) -> None:
    for number, created in enumerate((3.0, 1.0, 2.0)):
        journal.release(journal.create_run(new(f"r{number}", created)))
    assert [row.run for row in journal.runs()] == ["r2", "r1", "r0"], (
        "the order is that of making, whatever the clock said"
    )
    assert [row.run for row in journal.runs(limit=1, offset=1)] == ["r1"]
    assert journal.runs()[0] == RunRow("r2", "release-check", "digest", 2.0, 1, 0)


@pytest.fixture
def three_runs(journal: JournalPort) -> JournalPort:
    for run in ("20261120-0900-aaaaaa", "20261121-2259-k3f9qz", "20261121-2300-k3f9q0"):
        journal.create_run(new(run))
    return journal


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("last", "20261121-2300-k3f9q0"),
        ("20261120", "20261120-0900-aaaaaa"),
        ("20261121-2259-k3f9qz", "20261121-2259-k3f9qz"),
        ("k3f9qz", "20261121-2259-k3f9qz"),
        ("release-check", "20261121-2300-k3f9q0"),
    ],
)
def test_a_run_is_found_by(three_runs: JournalPort, wanted: str, found: str) -> None:
    assert three_runs.find_run(wanted) == found


def test_the_id_of_a_plan_comes_before_the_start_of_a_run(three_runs: JournalPort) -> None:
    three_runs.create_run(new("20261122-0000-aaaaaa")._replace(plan_id="20261120"))
    assert three_runs.find_run("20261120") == "20261122-0000-aaaaaa"


def test_an_unknown_name_names_the_nearest_plan_that_ran(three_runs: JournalPort) -> None:
    with pytest.raises(NotFound) as refused:
        three_runs.find_run("relase-check")
    assert "did you mean `release-check`?" in str(refused.value.hint)


def test_an_ambiguous_prefix_names_the_candidates(three_runs: JournalPort) -> None:
    with pytest.raises(NotFound, match="`20261121-2300-k3f9q0`, `20261121-2259-k3f9qz`"):
        three_runs.find_run("20261121")


@pytest.mark.parametrize("wanted", ["nothing", "", "%", "2026112_", "K'; DROP TABLE runs; --"])
def test_what_names_no_run_is_not_found(three_runs: JournalPort, wanted: str) -> None:
    with pytest.raises(NotFound):
        three_runs.find_run(wanted)


def test_without_runs_the_last_one_is_not_found(journal: JournalPort) -> None:
    with pytest.raises(NotFound, match="no runs yet"):
        journal.find_run("last")


def test_a_plan_is_kept_with_its_run_and_found_by_digest(journal: JournalPort) -> None:
    plan = StoredPlan("digest", "plan: p\n", "p.yaml", "yaml", b"\0compiled")
    journal.create_run(new("r1", plan=plan))
    journal.create_run(new("r2", plan=plan))
    assert journal.plan("digest") == plan
    with pytest.raises(NotFound, match="`other`"):
        journal.plan("other")


def test_a_kept_plan_is_never_replaced(journal: JournalPort) -> None:
    journal.keep_plan(StoredPlan("d", "first", "p.yaml", "yaml"))
    journal.keep_plan(StoredPlan("d", "second", "p.yaml", "yaml"))
    assert journal.plan("d").text == "first"


def test_compiled_plans_are_found_by_key(journal: JournalPort) -> None:
    assert journal.compiled_get("k") is None
    journal.compiled_put("k", b"1")
    journal.compiled_put("k", b"2")
    assert journal.compiled_get("k") == b"2"


def test_a_request_waits_until_it_is_answered_together_with_what_follows_from_it(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START))
    journal.create_run(new("r2"), numbered(0, START))
    request = Request("pause", {"reason": "naïve \U0001f41f"}, "ann", at=4.5)
    first, second = journal.post("r1", request), journal.post("r1", Request("cancel", {}))
    other = journal.post("r2", request)
    assert journal.waiting("r1") == [request._replace(id=first), Request("cancel", {}, id=second)]
    assert journal.answered(first) is None
    journal.append(handle, numbered(1, TaskQueued("a")), [(first, Answer(True, "done"))])
    assert journal.answered(first) == Answer(True, "done")
    assert [found.id for found in journal.waiting("r1")] == [second]
    assert [found.id for found in journal.waiting("r2")] == [other]
    journal.append(handle, numbered(2, TaskQueued("b")), [(first, Answer(False, "twice"))])
    assert journal.answered(first) == Answer(True, "done")
    with pytest.raises(NotFound):
        journal.answered(99)


def test_an_answer_without_entries_leaves_an_ended_run_as_it_is(journal: JournalPort) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START, RunEnded("completed")))
    number = journal.post("r1", Request("pause", {}))
    journal.append(handle, (), [(number, Answer(False, "the run has ended"))])
    assert astuple(journal.run("r1"))[5:8] == (2, "completed", 2.5)
    assert journal.answered(number) == Answer(False, "the run has ended")


def test_a_fenced_holder_answers_nothing(journal: JournalPort) -> None:
    stale = journal.create_run(new("r1"), numbered(0, START))
    journal.release(stale)
    fresh = journal.acquire("r1")
    stale.lock = 0
    number = journal.post("r1", Request("pause", {}))
    with pytest.raises(Fenced):
        journal.append(stale, numbered(1, TaskQueued("a")), [(number, Answer(True, "stale"))])
    stale.lock = -1
    assert journal.answered(number) is None
    journal.append(fresh, numbered(1, TaskQueued("a")), [(number, Answer(True, "fresh"))])
    assert journal.answered(number) == Answer(True, "fresh")


def test_a_journal_in_memory_fences_the_holder_it_forgot() -> None:
    journal = MemoryJournal()
    stale = journal.create_run(new("r1"), numbered(0, START))
    journal.crash()
    fresh = journal.acquire("r1")
    with pytest.raises(Fenced):
        journal.append(stale, numbered(1, TaskQueued("stale")))
    journal.append(fresh, numbered(1, TaskQueued("fresh")))
    assert [entry.event for entry in journal.entries("r1", 1)] == [TaskQueued("fresh")]


@pytest.mark.parametrize(("when", "stored"), [("before", 1), ("after", 2)])
def test_a_journal_in_memory_fails_where_the_test_says(when: str, stored: int) -> None:
    def fail(write: int, moment: str) -> None:
        if (write, moment) == (2, when):
            raise StorageFailed("out of space")

    journal = MemoryJournal(fail)
    handle = journal.create_run(new("r1"), numbered(0, START))
    with pytest.raises(StorageFailed, match="out of space"):
        journal.append(handle, numbered(1, TaskQueued("a")))
    with pytest.raises(StorageFailed, match="not written to any more"):
        journal.append(handle, numbered(1, TaskQueued("a")))
    assert len(list(journal.entries("r1"))) == stored
    journal.release(handle)
    assert journal.acquire("r1").last_seq == stored


def test_an_address_of_an_unknown_store_names_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="is not a store of journals") as refused:
        open_journal("nowhere://host/journal")
    assert "`file://`" in refused.value.hint
