"""Runs are taken out of a journal, and it stays one that can be verified."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from planrunner.errors import RecordMismatch, RunHeld, UsageError
from planrunner.journal.audit import verify_journal
from planrunner.journal.foreign import accept
from planrunner.journal.proof import Anchor
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import Entry, RunEnded, RunReopened, RunStarted


def write_run(journal: Journal, run: str, ended: bool = True) -> None:
    plan = StoredPlan(f"digest {run}", f"plan: {run}\n", "p.yaml", "yaml", None)
    last = [Entry(2, 11.0, RunEnded("completed"))] if ended else []
    first = Entry(1, 10.0, RunStarted(plan.digest, {}, 7))
    journal.release(journal.create_run(NewRun(run, "p", plan.digest, 10.0, plan), [first, *last]))


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A journal of `r1`, `r2` and `r3`, of which the last has not ended."""
    path = str(tmp_path / "state")
    journal = open_journal(path)
    write_run(journal, "r1")
    write_run(journal, "r2")
    write_run(journal, "r3", ended=False)
    journal.close()
    return path


def prune(state: str, *runs: str) -> None:
    journal = open_journal(state)
    try:
        for run in runs:
            journal.retention().remove(journal.run(run), 99.0, "ann")
        journal.retention().drop_plans()
    finally:
        journal.close()


def change(state: str, statement: str) -> None:
    connection = sqlite3.connect(f"{state}/journal.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


def asked(state: str, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(f"{state}/journal.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def kinds(state: str, *anchors: Anchor) -> list[tuple[str, str]]:
    return [(each.run, each.kind) for each in verify_journal(state, None, anchors).breaks]


def test_nothing_of_a_pruned_run_is_left_but_its_record(state: str) -> None:
    prune(state, "r1")
    assert asked(state, "SELECT run FROM runs ORDER BY 1") == [("r2",), ("r3",)]
    assert asked(state, "SELECT digest FROM plans ORDER BY 1") == [("digest r2",), ("digest r3",)]
    assert asked(state, "SELECT count(*) FROM entries WHERE id >> 32 = 1") == [(0,)]
    assert asked(state, "SELECT run, last_seq, status, at, by FROM pruned") == [("r1", 2, "completed", 99.0, "ann")]


def test_a_pruned_journal_is_intact_and_says_how_many_are_gone(state: str) -> None:
    prune(state, "r1", "r2")
    found = verify_journal(state)
    assert (found.breaks, found.pruned, [each.run for each in found.runs]) == ((), 2, ["r3"])
    assert (verify_journal(state, "r1").pruned, verify_journal(state, "r3").pruned) == (1, 0)


def test_a_run_that_was_removed_without_a_record_is_still_found(state: str) -> None:
    prune(state, "r1")
    change(state, "DELETE FROM entries WHERE id >> 32 = 2")
    change(state, "DELETE FROM runs WHERE run = 'r2'")
    assert kinds(state) == [("r2", "cut")]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE pruned SET last_seq = 1", "pruned"),
        ("UPDATE pruned SET by = 'eve'", "pruned"),
        ("UPDATE pruned SET run = 'r9'", "pruned"),
        ("UPDATE pruned SET seal = NULL", "unchained"),
        ("UPDATE pruned SET seal = x'00'", "key"),
    ],
)
def test_a_record_that_was_changed_is_found_and_can_be_accepted(state: str, statement: str, kind: str) -> None:
    prune(state, "r1")
    change(state, statement)
    assert [found for _, found in kinds(state)] == [kind]
    accept(state, None, {"by": "ann"})
    assert kinds(state) == []


def test_a_record_that_was_removed_is_found(state: str) -> None:
    prune(state, "r1")
    change(state, "DELETE FROM pruned")
    assert kinds(state) == [("r1", "cut")]


def test_an_anchor_of_a_pruned_run_is_compared_with_its_record(state: str) -> None:
    last = verify_journal(state, "r1").runs[0]
    prune(state, "r1")
    assert kinds(state, Anchor("r1", 2, last.link)) == []
    assert kinds(state, Anchor("r1", 1, "0" * 64)) == []
    assert kinds(state, Anchor("r1", 2, "0" * 64)) == [("r1", "anchor")]
    assert kinds(state, Anchor("r1", 3, last.link)) == [("r1", "cut")]


def test_the_number_of_a_pruned_run_is_never_given_again(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prune(state, "r2")
    journal = open_journal(state)
    journal.release(journal.acquire("r3"))
    journal.close()
    change(state, "UPDATE pruned SET number = 50")
    monkeypatch.setattr("planrunner.journal.chain.Chain.count", lambda _: 0)
    journal = open_journal(state)
    write_run(journal, "r4")
    journal.close()
    assert asked(state, "SELECT number FROM runs WHERE run = 'r4'") == [(51,)]


def test_a_run_that_is_held_has_not_ended_or_was_taken_up_since_is_not_pruned(state: str) -> None:
    journal = open_journal(state)
    seen = journal.run("r1")
    with pytest.raises(UsageError, match="has not ended"):
        journal.retention().remove(journal.run("r3"), 99.0, "ann")
    handle = journal.acquire("r1")
    with pytest.raises(RunHeld):
        journal.retention().remove(seen, 99.0, "ann")
    journal.append(handle, [Entry(3, 12.0, RunReopened("retry", "ann"))])
    journal.release(handle)
    with pytest.raises(UsageError, match="has not ended"):
        journal.retention().remove(seen, 99.0, "ann")
    journal.close()
    assert verify_journal(state).breaks == ()


def test_a_run_that_is_not_what_was_written_is_not_pruned(state: str) -> None:
    change(state, "UPDATE entries SET at = 10.5 WHERE id >> 32 = 1")
    with pytest.raises(RecordMismatch):
        prune(state, "r1")
    assert asked(state, "SELECT count(*) FROM pruned") == [(0,)]


def test_plans_stay_while_another_process_has_the_journal_open(state: str) -> None:
    other = open_journal(state)
    prune(state, "r1")
    assert ("digest r1",) in asked(state, "SELECT digest FROM plans")
    other.close()
    prune(state)
    assert ("digest r1",) not in asked(state, "SELECT digest FROM plans")
