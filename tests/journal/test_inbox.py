"""Notes of acts under way: in the journal's database, durable, by name, gone a month after their run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from planrunner.errors import StorageFailed
from planrunner.journal.inbox import KEPT, read_note, write_note
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import Entry, RunEnded, RunStarted


@pytest.fixture
def state(tmp_path: Path) -> str:
    open_journal(str(tmp_path)).close()
    return str(tmp_path)


def test_a_note_is_read_replaced_and_removed_by_its_name(state: str) -> None:
    assert read_note(state, "git a") == ""
    write_note(state, "r", "git a", "one")
    write_note(state, "r", "git b", "other")
    write_note(state, "r", "git a", "two")
    assert (read_note(state, "git a"), read_note(state, "git b")) == ("two", "other")
    write_note(state, "r", "git a", "")
    assert (read_note(state, "git a"), read_note(state, "git b")) == ("", "other")


def test_a_note_is_written_from_any_thread_beside_a_journal_that_is_open(state: str) -> None:
    journal = open_journal(state)
    try:
        threads = [threading.Thread(target=write_note, args=(state, "r", f"n{at}", str(at))) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        journal.close()
    assert [read_note(state, f"n{at}") for at in range(8)] == [str(at) for at in range(8)]


def test_without_a_journal_nothing_is_noted_and_none_is_made(tmp_path: Path) -> None:
    assert read_note(str(tmp_path), "x") == ""
    with pytest.raises(StorageFailed, match="is gone"):
        write_note(str(tmp_path), "r", "x", "text")
    assert list(tmp_path.iterdir()) == []


def test_notes_go_a_month_after_the_end_of_their_run_and_no_sooner(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(state)
    started = Entry(1, 10.0, RunStarted("d", {}, 1))
    for run, ended in (("old", 1000.0), ("young", 2000.0), ("open", None)):
        handle = journal.create_run(
            NewRun(run, "p", "d", 10.0, StoredPlan("d", "x", "p.yaml", "yaml", None)), [started]
        )
        if ended is not None:
            journal.append(handle, [Entry(2, ended, RunEnded("completed"))])
        journal.release(handle)
        write_note(state, run, run, "text")
    journal.close()
    monkeypatch.setattr("time.time", lambda: 1500.0 + KEPT)
    monkeypatch.setattr("planrunner.journal.inbox._RARELY", 1)
    write_note(state, "open", "another", "text")
    assert [bool(read_note(state, run)) for run in ("old", "young", "open")] == [False, True, True]
