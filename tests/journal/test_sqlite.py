"""The journal on disk: what it does about faults of the disk, and how its files behave."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from planrunner.errors import STORAGE, Fenced, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.journal import database, leases
from planrunner.journal import sqlite as journal_sqlite
from planrunner.journal.records import NewRun, Request
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import Entry, RunStarted, TaskQueued, TaskSettled

if TYPE_CHECKING:
    from planrunner.machine.events import Event

START = RunStarted("digest", {}, 1)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    opened = open_journal(str(state))
    yield opened
    opened.close()


def numbered(after: int, *events: Event) -> list[Entry]:
    return [Entry(seq, float(seq), event) for seq, event in enumerate(events, after + 1)]


def settled(count: int, size: int = 50) -> list[Event]:
    return [TaskSettled(f"t{number}", "completed", detail="x" * size) for number in range(count)]


def new(run: str) -> NewRun:
    return NewRun(run, "p", "digest", 1.0)


def test_the_journal_is_on_power_safe_settings_and_private(journal: Journal, state: Path) -> None:
    connection = journal._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert stat.S_IMODE(os.stat(state / "journal.db").st_mode) == 0o600


def test_keeping_a_compiled_plan_leaves_the_journal_power_safe(journal: Journal) -> None:
    journal.compiled_put("key", b"value")
    assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_only_the_last_compiled_plans_stay(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_sqlite, "_CACHED_PLANS", 3)
    for number in range(6):
        journal.compiled_put(f"k{number}", b"v")
    assert [journal.compiled_get(f"k{number}") for number in range(6)] == [None, None, None, b"v", b"v", b"v"]


def test_closing_leaves_one_file_without_a_log(journal: Journal, state: Path) -> None:
    journal.release(journal.create_run(new("r1"), numbered(0, START)))
    assert (state / "journal.db-wal").stat().st_size > 0
    journal.close()
    assert sorted(path.name for path in state.glob("journal.db*")) == ["journal.db"]
    assert os.listdir(state / "locks") == ["journal.lock"]


def test_a_long_log_is_moved_into_the_database_while_the_run_goes_on(
    journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "FULL", 1 << 20)
    handle = journal.create_run(new("r1"))
    sizes = []
    for _ in range(60):
        journal.append(handle, numbered(handle.last_seq, *settled(300, 200)))
        sizes.append((state / "journal.db-wal").stat().st_size)
    assert max(sizes) < 2 << 20
    assert (state / "journal.db").stat().st_size > 3 << 20
    assert sum(1 for _ in journal.entries("r1")) == 18_000


def test_the_log_is_left_alone_while_another_process_has_the_database_open(
    journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "FULL", 1 << 20)
    handle = journal.create_run(new("r1"))
    with open(state / "locks" / "journal.lock") as another:
        fcntl.flock(another, fcntl.LOCK_SH)
        for _ in range(15):
            journal.append(handle, numbered(handle.last_seq, *settled(300, 200)))
        assert (state / "journal.db-wal").stat().st_size > 1 << 20
    journal.append(handle, numbered(handle.last_seq, *settled(1)))
    assert (state / "journal.db-wal").stat().st_size < 1 << 20
    assert sum(1 for _ in journal.entries("r1")) == 4501


def test_the_log_of_a_process_with_many_connections_is_moved_while_all_of_them_write(
    journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "FULL", 1 << 20)
    sizes: list[int] = []

    def write(run: str) -> None:
        mine = open_journal(str(state))
        handle = mine.create_run(new(run))
        for _ in range(20):
            mine.append(handle, numbered(handle.last_seq, *settled(300, 200)))
            sizes.append((state / "journal.db-wal").stat().st_size)
        mine.release(handle)
        mine.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, ("a", "b", "c", "d")))
    assert max(sizes) < 3 << 20
    assert [sum(1 for _ in journal.entries(run)) for run in ("a", "b", "c", "d")] == [6000] * 4


def test_people_read_events_by_run_and_number(journal: Journal, state: Path) -> None:
    for run in ("r1", "r2"):
        journal.release(journal.create_run(new(run), numbered(0, START, TaskQueued(f"of-{run}"))))
    rows = journal._connection.execute("SELECT seq, kind, body ->> '$.task' FROM events WHERE run = 'r2' ORDER BY seq")
    assert rows.fetchall() == [(1, "run_started", None), (2, "task_queued", "of-r2")]


def test_after_many_small_commits_the_log_is_used_again_instead_of_growing(journal: Journal, state: Path) -> None:
    handle = journal.create_run(new("r1"))
    sizes = []
    for number in range(1200):
        journal.append(handle, numbered(number, TaskQueued(f"t{number}")))
        sizes.append((state / "journal.db-wal").stat().st_size)
    assert sizes[-1] == sizes[300] < 4 << 20
    assert (state / "journal.db").stat().st_size > 60_000, "what the log held came into the database meanwhile"
    copy = state.parent / "copy"
    shutil.copytree(state, copy)  # as after power loss: what is on the disk, with nobody's shared memory
    os.unlink(copy / "journal.db-shm")
    reopened = open_journal(str(copy))
    assert [entry.seq for entry in reopened.entries("r1")] == list(range(1, 1201))
    reopened.close()


def test_a_reader_that_stays_open_does_not_keep_the_log_from_being_moved(
    journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "FULL", 1 << 20)
    handle = journal.create_run(new("r1"), numbered(0, START))
    reader = open_journal(str(state), readonly=True)
    for _ in range(30):
        journal.append(handle, numbered(handle.last_seq, *settled(300, 200)))
        assert sum(1 for _ in reader.entries("r1", handle.last_seq - 300)) == 300
    assert (state / "journal.db-wal").stat().st_size < 2 << 20
    reader.close()


def test_two_writers_share_one_log(state: Path) -> None:
    journals = [open_journal(str(state)) for _ in range(2)]
    handles = [each.create_run(new(f"r{number}")) for number, each in enumerate(journals)]
    for number in range(150):
        for each, handle in zip(journals, handles, strict=True):
            each.append(handle, numbered(number, TaskQueued(f"t{number}")))
    assert (state / "journal.db-wal").stat().st_size < 12 << 20
    for each, handle in zip(journals, handles, strict=True):
        assert sum(1 for _ in each.entries(handle.run)) == 150
        each.release(handle)
        each.close()


@pytest.fixture
def limited_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_append_that_does_not_fit_parks_the_run_and_loses_nothing(
    state: Path, journal: Journal, limited_files: None
) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, ((state / "journal.db-wal").stat().st_size + 9000, hard))
    with pytest.raises(StorageFailed, match="cannot be written") as caught:
        journal.append(handle, numbered(1, *settled(2000)))
    assert caught.value.exit_code == STORAGE
    assert "`planrunner resume r1`" in caught.value.hint
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    with pytest.raises(StorageFailed, match="not written to any more"):
        journal.append(handle, numbered(1, TaskQueued("a")))
    journal.release(handle)
    journal.close()
    again = open_journal(str(state))
    resumed = again.acquire("r1")
    assert resumed.last_seq == 1
    again.append(resumed, numbered(1, TaskQueued("a")))
    assert [entry.event for entry in again.entries("r1")] == [START, TaskQueued("a")]
    again.release(resumed)
    again.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_parks_the_run_until_there_is_space(small_disk: Path) -> None:
    state = str(small_disk / "state")
    ballast = small_disk / "ballast"
    journal = open_journal(state)
    handle = journal.create_run(new("r1"), numbered(0, START))
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 100_000))
    with pytest.raises(StorageFailed, match=r"no space is left|cannot be written") as caught:
        for _ in range(100):
            journal.append(handle, numbered(handle.last_seq, *settled(40)))
    assert "free some" in caught.value.hint
    durable = handle.last_seq
    assert durable >= 1
    journal.release(handle)
    journal.close()
    ballast.unlink()
    again = open_journal(state)
    resumed = again.acquire("r1")
    assert resumed.last_seq == durable
    again.append(resumed, numbered(durable, *settled(10)))
    assert [entry.seq for entry in again.entries("r1")] == list(range(1, durable + 11))
    again.release(resumed)
    again.close()


def test_a_full_disk_refuses_a_new_journal_with_a_way_out(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    with pytest.raises(StorageFailed, match=r"no space|No space") as caught:
        open_journal(str(small_disk / "state"))
    assert "free some" in caught.value.hint
    assert "again" in caught.value.hint
    assert "resume" not in caught.value.hint  # there is no run to continue with


def test_a_full_disk_is_told_for_a_reader_too_and_names_no_run_to_go_on_with(small_disk: Path) -> None:
    open_journal(str(small_disk / "state")).close()
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    with pytest.raises(StorageFailed, match=r"no space|cannot be written") as caught:
        open_journal(str(small_disk / "state"))
    assert caught.value.hint.endswith("then run the command again")


def test_a_disk_too_full_for_a_new_run_says_to_execute_again(small_disk: Path) -> None:
    journal = open_journal(str(small_disk / "state"))
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free - 20_000))
    with pytest.raises(StorageFailed) as caught:
        for number in range(50):
            journal.release(journal.create_run(new(f"r{number}"), numbered(0, START)))
    assert "free some" in caught.value.hint
    assert "again" in caught.value.hint
    assert "resume" not in caught.value.hint
    journal.close()


def test_entries_that_are_no_json_leave_the_run_writable(journal: Journal) -> None:
    handle = journal.create_run(new("r1"))
    with pytest.raises(TypeError):
        journal.append(handle, numbered(0, RunStarted("d", {"x": object()}, 1)))
    journal.append(handle, numbered(0, START))
    assert journal.run("r1").last_seq == 1


@pytest.mark.parametrize("run", ["", "../r1", "a/b", "journal", ".", "a.b", "ru n", "a\0b"])
def test_a_run_id_that_could_leave_the_folder_of_locks_is_refused(journal: Journal, run: str) -> None:
    with pytest.raises(UsageError, match="cannot name a run"):
        journal.create_run(new(run))


def test_a_failed_start_leaves_no_lock(journal: Journal, state: Path) -> None:
    journal.release(journal.create_run(new("r1")))
    with pytest.raises(UsageError):
        journal.create_run(new("r1"))
    assert os.listdir(state / "locks") == ["journal.lock"]


def test_a_lock_file_left_by_a_crash_means_nothing(journal: Journal, state: Path) -> None:
    journal.release(journal.create_run(new("r1")))
    (state / "locks" / "r1.lock").write_text("process 1 on elsewhere since 1970-01-01 00:00:00\n")
    assert not journal.is_leased("r1")
    assert journal.acquire("r1").epoch == 2


def finished(state: Path) -> None:
    journal = open_journal(str(state))
    handle = journal.create_run(new("r1"), numbered(0, START, *settled(500)))
    journal.release(handle)
    journal.close()


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(state: Path) -> None:
    finished(state)
    (state / "journal.db").write_bytes(b"something else entirely\n" * 100)
    with pytest.raises(StorageFailed, match=r"not a journal of planrunner, or is damaged") as caught:
        open_journal(str(state))
    assert "copy" in caught.value.hint
    assert (state / "journal.db").read_bytes() == b"something else entirely\n" * 100


def test_a_database_of_another_program_is_refused_and_left_as_it_is(state: Path) -> None:
    state.mkdir(mode=0o700)
    connection = sqlite3.connect(state / "journal.db")
    connection.execute("CREATE TABLE songs (name)")
    connection.commit()
    connection.close()
    before = (state / "journal.db").read_bytes()
    for readonly in (False, True):
        with pytest.raises(StorageFailed, match="another program"):
            open_journal(str(state), readonly=readonly)
    assert (state / "journal.db").read_bytes() == before


@pytest.mark.parametrize(("layout", "then"), [(99, "upgrade"), (7, "move the state directory away")])
def test_a_journal_of_another_layout_is_refused(state: Path, layout: int, then: str) -> None:
    finished(state)
    connection = sqlite3.connect(state / "journal.db")
    connection.execute(f"PRAGMA user_version={layout}")
    connection.close()
    before = (state / "journal.db").read_bytes()
    for readonly in (False, True):
        with pytest.raises(StorageFailed, match=f"layout {layout}") as caught:
            open_journal(str(state), readonly=readonly)
        assert then in caught.value.hint
    assert (state / "journal.db").read_bytes() == before


def test_only_the_writes_of_others_are_noticed(state: Path) -> None:
    ours, theirs = open_journal(str(state)), open_journal(str(state))
    handle = ours.create_run(new("r1"), numbered(0, START))
    assert ours.touched()
    ours.append(handle, numbered(1, TaskQueued("a")))
    assert not ours.touched()
    theirs.post("r1", Request("pause", {}))
    assert ours.touched()
    assert not ours.touched()
    ours.release(handle)
    ours.close()
    theirs.close()


def test_nothing_is_written_behind_a_gap(journal: Journal) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START, TaskQueued("a"), TaskQueued("b")))
    journal._connection.execute("DELETE FROM entries WHERE kind = 'task_queued' AND body LIKE '%b%'")
    with pytest.raises(Fenced):
        journal.append(handle, numbered(3, TaskQueued("c")))
    assert len(list(journal.entries("r1"))) == 2


def test_tables_are_made_all_or_none(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(database, "TABLES", (*database.TABLES, "ALTER TABLE songs ADD COLUMN x"))
        with pytest.raises(StorageFailed, match="no such table"):
            open_journal(str(state))
    connection = sqlite3.connect(state / "journal.db")
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    open_journal(str(state)).close()


def test_a_damaged_page_is_named_when_it_is_read(state: Path) -> None:
    finished(state)
    content = bytearray((state / "journal.db").read_bytes())
    content[16 * 4096 :] = b"\xa5" * (len(content) - 16 * 4096)
    (state / "journal.db").write_bytes(content)
    journal = open_journal(str(state))
    with pytest.raises(StorageFailed, match="is damaged") as caught:
        list(journal.entries("r1"))
    assert "copy" in caught.value.hint
    journal.close()


@pytest.mark.parametrize("keep", [0, 1, 100, 5000, 20_000])
def test_a_database_cut_short_never_ends_in_a_foreign_exception(state: Path, keep: int) -> None:
    finished(state)
    os.truncate(state / "journal.db", keep)
    try:
        journal = open_journal(str(state))
    except StorageFailed:
        return
    try:
        assert len(list(journal.entries("r1"))) < 501
    except StorageFailed:
        pass
    finally:
        journal.close()


def test_there_is_nothing_to_read_before_the_first_run(state: Path) -> None:
    with pytest.raises(NotFound, match="no runs") as caught:
        open_journal(str(state), readonly=True)
    assert "exec" in caught.value.hint
    assert not state.exists()


def test_a_reader_cannot_write(state: Path) -> None:
    finished(state)
    reader = open_journal(str(state), readonly=True)
    with pytest.raises(StorageFailed, match="read-only"):
        reader.create_run(new("r2"))
    assert not reader.is_leased("r2")
    reader.close()


def test_a_journal_on_a_read_only_disk_can_be_read(small_disk: Path) -> None:
    state = small_disk / "state"
    finished(state)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    reader = open_journal(str(state), readonly=True)
    assert sum(1 for _ in reader.entries("r1")) == 501
    assert reader.runs()[0].run == "r1"
    reader.close()
    with pytest.raises(StorageFailed, match=r"read-only|Read-only"):
        open_journal(str(state))


def test_a_linked_database_is_not_followed(state: Path, tmp_path: Path) -> None:
    finished(state)
    os.rename(state / "journal.db", tmp_path / "elsewhere.db")
    os.symlink(tmp_path / "elsewhere.db", state / "journal.db")
    with pytest.raises(StorageFailed, match="is a link"):
        open_journal(str(state))


def test_linked_locks_are_not_followed(state: Path, tmp_path: Path) -> None:
    finished(state)
    os.rename(state / "locks", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", state / "locks")
    with pytest.raises(StorageFailed, match="is a link"):
        open_journal(str(state))


def test_the_message_about_a_held_run_says_how_to_stop_its_holder(tmp_path: Path) -> None:
    journal = open_journal(str(tmp_path / "state"))
    handle = journal.create_run(new("r1"), numbered(0, START))
    with pytest.raises(RunHeld) as caught:
        journal.acquire("r1")
    assert "Ctrl-C" in caught.value.hint
    assert caught.value.hint.endswith("start no more: planrunner pause r1")
    assert "cancel" not in caught.value.hint
    journal.release(handle)
    journal.close()


def test_looking_a_journal_through_is_given_up_after_the_time_it_may_take(state: Path, journal: Journal) -> None:
    handle = journal.create_run(new("r1"), numbered(0, START))
    journal.append(handle, numbered(1, *settled(20_000)))
    journal.release(handle)
    assert database.check_database(str(state), 60.0)
    assert not database.check_database(str(state), -1.0)


def test_a_writer_that_another_keeps_out_says_how_to_find_and_wake_it(
    journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.close()
    monkeypatch.setattr(leases, "_PATIENCE", 0.05)
    with (state / "locks" / "journal.lock").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        with pytest.raises(StorageFailed, match="kept the journal to itself") as refused:
            open_journal(str(state))
    assert "kill -CONT" in refused.value.hint
    open_journal(str(state)).close()
