"""Whatever is changed in a journal is found: each event of one, in every way that there is to change it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from workbench import ROOT

from planrunner.errors import NotFound, RecordMismatch, StorageFailed
from planrunner.journal.audit import inspect, read_heads, verify_journal
from planrunner.journal.chain import Chain, known_chain
from planrunner.journal.foreign import accept, accepted
from planrunner.journal.proof import Anchor
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Outcome,
    RunEnded,
    RunStarted,
    TaskQueued,
    TaskSettled,
)

EVENTS = 200


def numbered(after: int, *events: object) -> list[Entry]:
    return [Entry(seq, 1e9 + seq / 7, event) for seq, event in enumerate(events, after + 1)]  # type: ignore[arg-type]


def events_of(tasks: int) -> Iterator[object]:
    for number in range(tasks):
        yield AttemptStarted(f"t{number}", 1, f"k{number}")
        yield AttemptEnded(f"t{number}", 1, Outcome(exit_code=0, stdout=f"line {number}\n", duration=0.25))
        yield TaskSettled(f"t{number}", "completed")


def write_run(journal: Journal, run: str, events: int = EVENTS, ended: bool = True) -> None:
    """A run of so many events in commits of growing size."""
    plan = StoredPlan(f"digest {run}", "plan: p\n", "p.yaml", "yaml", b"compiled")
    new = NewRun(run, "p", plan.digest, 1e9, plan)
    handle = journal.create_run(new, numbered(0, RunStarted(plan.digest, {}, 7)))
    following = [*events_of(events)][: events - 2]
    size = 1
    while following:
        journal.append(handle, numbered(handle.last_seq, *following[:size]))
        following, size = following[size:], size % 9 + 1
    last = RunEnded("completed") if ended else TaskQueued("last")
    journal.append(handle, numbered(handle.last_seq, last))
    assert handle.last_seq == events
    journal.release(handle)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with three runs, the middle one of 200 events."""
    journal = open_journal(str(tmp_path / "state"))
    write_run(journal, "r1", 20)
    write_run(journal, "r2")
    write_run(journal, "r3", 20, ended=False)
    journal.close()
    return tmp_path / "state"


def breaks(state: Path, run: str | None = None) -> list[tuple[str, int, str]]:
    return [(each.run, each.seq, each.kind) for each in verify_journal(str(state), run).breaks]


def change(state: Path, *statements: str) -> None:
    connection = sqlite3.connect(state / "journal.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


class Forgery(NamedTuple):
    """A way to change a journal; in the statements ``ID`` is the event, ``LAST`` that of the run behind its last, and
    ``found`` says of event n of 200 where the break is."""

    statements: tuple[str, ...]
    found: Callable[[int], tuple[int, str]] = lambda n: (n, "changed")
    least: int = 1
    most: int = EVENTS


_COLUMNS = "at, kind, version, body, mac"
_AFTER = (
    "CREATE TEMP TABLE late AS SELECT * FROM entries WHERE id > ID AND id < LAST",
    "DELETE FROM entries WHERE id > ID AND id < LAST",
)
_SWAP = (
    "CREATE TEMP TABLE pair AS SELECT * FROM entries WHERE id IN (ID, ID + 1)",
    "DELETE FROM entries WHERE id IN (ID, ID + 1)",
)

FORGERIES = {
    "its time": Forgery(("UPDATE entries SET at = at + 0.000001 WHERE id = ID",)),
    "its time as text": Forgery(("UPDATE entries SET at = 'now' WHERE id = ID",)),
    "its kind": Forgery(("UPDATE entries SET kind = 'task_queued_' WHERE id = ID",)),
    "its version": Forgery(("UPDATE entries SET version = version + 1 WHERE id = ID",)),
    "its version as a fraction": Forgery(("UPDATE entries SET version = 1.5 WHERE id = ID",)),
    "a character of its body": Forgery(("UPDATE entries SET body = replace(body, '{', '{ ') WHERE id = ID",)),
    "its body as bytes": Forgery(("UPDATE entries SET body = CAST(body AS BLOB) WHERE id = ID",)),
    "bytes that are no text": Forgery(("UPDATE entries SET body = CAST(x'7bff7d' AS TEXT) WHERE id = ID",)),
    "its kind grown into the body": Forgery(
        ("UPDATE entries SET kind = kind || ' ' || body, body = '{}' WHERE id = ID",)
    ),
    "a bit of its mac": Forgery(
        ("UPDATE entries SET mac = CAST(substr(mac, 1, 15) || x'00' AS BLOB) WHERE id = ID",
         "UPDATE entries SET mac = CAST(substr(mac, 1, 14) || x'0101' AS BLOB) WHERE id = ID"),
    ),
    "no mac": Forgery(("UPDATE entries SET mac = NULL WHERE id = ID",)),
    "no mac from it on": Forgery(("UPDATE entries SET mac = NULL WHERE id >= ID AND id < LAST",)),
    "deleted": Forgery(("DELETE FROM entries WHERE id = ID",), lambda n: (n, "missing" if n < EVENTS else "cut")),
    "deleted, those behind moved up": Forgery(
        ("DELETE FROM entries WHERE id = ID", *_AFTER, f"INSERT INTO entries SELECT id - 1, {_COLUMNS} FROM temp.late"),
        lambda n: (n, "changed" if n < EVENTS else "cut"),
    ),
    "swapped with the next": Forgery(
        (*_SWAP, f"INSERT INTO entries SELECT 2 * ID + 1 - id, {_COLUMNS} FROM temp.pair"), most=EVENTS - 1
    ),
    "bodies swapped with the next": Forgery(
        (*_SWAP, ("INSERT INTO entries SELECT one.id, one.at, two.kind, two.version, two.body, one.mac"
          " FROM temp.pair one JOIN temp.pair two ON two.id != one.id")),
        most=EVENTS - 1,
    ),
    "one inserted before it": Forgery(
        ("UPDATE entries SET id = id WHERE id = ID",
         "CREATE TEMP TABLE late AS SELECT * FROM entries WHERE id >= ID AND id < LAST",
         "DELETE FROM entries WHERE id >= ID AND id < LAST",
         f"INSERT INTO entries SELECT id + 1, {_COLUMNS} FROM temp.late",
         "INSERT INTO entries VALUES (ID, 1000000000.5, 'task_queued', 1, '{\"task\":\"x\"}', randomblob(16))"),
    ),
    "doubled at the end": Forgery(
        (f"INSERT INTO entries SELECT LAST, {_COLUMNS} FROM entries WHERE id = ID",), lambda _: (EVENTS + 1, "changed")
    ),
    "doubled behind itself": Forgery(
        (*_AFTER, f"INSERT INTO entries SELECT id + 1, {_COLUMNS} FROM temp.late",
         f"INSERT INTO entries SELECT id + 1, {_COLUMNS} FROM entries WHERE id = ID"),
        lambda n: (n + 1, "changed"),
    ),
    "an event of another run in its place": Forgery(
        ("DELETE FROM entries WHERE id = ID",
         f"INSERT INTO entries SELECT ID, {_COLUMNS} FROM entries WHERE id = (1 << 32) + 1 + (ID % 17)"),
    ),
    "cut from it on": Forgery(("DELETE FROM entries WHERE id >= ID AND id < LAST",), lambda n: (n, "cut")),
    "cut from it on, and its run told as it was": Forgery(
        ("DELETE FROM entries WHERE id >= ID AND id < LAST", "UPDATE runs SET status = '', ended = NULL WHERE number = 2"),
        lambda _: (0, "row"),
    ),
    "cut before it": Forgery(
        ("DELETE FROM entries WHERE id < ID AND id > (2 << 32)",), lambda n: (1, "missing"), least=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_each_event_of_a_journal_that_is_changed_so_is_found(state: Path, name: str) -> None:
    forgery = FORGERIES[name]
    chain = known_chain(str(state))
    heads, wrong = read_heads(chain)
    connection = sqlite3.connect(state / "journal.db", isolation_level=None)
    connection.execute("PRAGMA temp_store=MEMORY")
    assert not wrong and inspect(connection, chain, heads)[1] == []
    for number in range(forgery.least, forgery.most + 1):
        connection.execute("BEGIN")
        for statement in forgery.statements:
            given = statement.replace("LAST", str((2 << 32) + EVENTS + 1)).replace("ID", str((2 << 32) + number))
            connection.execute(given)
        _, found = inspect(connection, chain, heads, frozenset({"r2"}))
        connection.execute("ROLLBACK")
        assert [each.run for each in found] == ["r2"] * len(found), (number, found)
        assert (found[0].seq, found[0].kind) == forgery.found(number), (number, found)
    assert inspect(connection, chain, heads)[1] == []
    connection.close()
    chain.close()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE runs SET run = 'r9' WHERE number = 2", ("r9", 0, "row")),
        ("UPDATE runs SET plan_id = 'q' WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET plan_digest = 'digest r1' WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET created = created + 1 WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET created = 'then' WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET epoch = epoch + 1 WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET since = 150 WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET status = 'failed' WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET ended = ended + 1 WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET seal = NULL WHERE number = 2", ("r2", 0, "unchained")),
        ("UPDATE runs SET seal = 7 WHERE number = 2", ("r2", 0, "key")),
        ("UPDATE runs SET seal = (SELECT seal FROM runs WHERE number = 1) WHERE number = 2", ("r2", 0, "row")),
        ("UPDATE runs SET number = 9 WHERE number = 2", ("", 0, "inserted")),
        ("DELETE FROM runs WHERE number = 2", ("", 0, "inserted")),
        ("INSERT INTO runs SELECT 4, 'r4', plan_id, plan_digest, created, 1, '', NULL, 1, seal FROM runs WHERE number = 2",
         ("r4", 0, "row")),
        ("INSERT INTO entries SELECT id + (9 << 32), at, kind, version, body, mac FROM entries", ("", 0, "inserted")),
        ("INSERT INTO entries VALUES (2 << 32, 1.0, 'task_queued', 1, '{}', NULL)", ("r2", 0, "inserted")),
        ("UPDATE plans SET text = text || '#' WHERE digest = 'digest r2'", ("r2", 0, "plan")),
        ("UPDATE plans SET compiled = x'00' WHERE digest = 'digest r2'", ("r2", 0, "plan")),
        ("UPDATE plans SET seal = NULL WHERE digest = 'digest r2'", ("r2", 0, "plan")),
        ("UPDATE audit SET journal = randomblob(16)", ("", 0, "journal")),
        ("DELETE FROM audit", ("", 0, "journal")),
        ("CREATE TRIGGER late AFTER INSERT ON entries BEGIN UPDATE entries SET at = 0; END", ("", 0, "layout")),
        ("DROP VIEW events", ("", 0, "layout")),
    ],
)  # fmt: skip
def test_each_change_around_the_events_is_found(state: Path, statement: str, found: tuple[str, int, str]) -> None:
    change(state, statement)
    assert breaks(state)[0] == found


def test_a_whole_run_that_is_taken_out_is_found_though_nothing_in_the_journal_tells(state: Path) -> None:
    change(state, "DELETE FROM entries WHERE id >> 32 = 2", "DELETE FROM runs WHERE number = 2")
    assert breaks(state) == [("r2", 1, "cut")]
    assert breaks(state, "r2") == [("r2", 1, "cut")]
    assert breaks(state, "r1") == []


def test_an_old_copy_that_is_put_back_is_found(state: Path, tmp_path: Path) -> None:
    shutil.copytree(state, tmp_path / "copy")
    journal = open_journal(str(state))
    handle = journal.acquire("r3")
    journal.append(handle, numbered(20, TaskQueued("a"), TaskQueued("b")))
    journal.release(handle)
    write_run(journal, "r4", 5)
    journal.close()
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "copy", state)
    assert breaks(state) == [("r3", 21, "cut"), ("r4", 1, "cut")]


def test_a_journal_of_another_place_is_not_taken_for_the_one_that_was_here(state: Path, tmp_path: Path) -> None:
    other = open_journal(str(tmp_path / "other"))
    write_run(other, "r1", 20)
    other.close()
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "other", state)
    assert ("", 0, "journal") in breaks(state)
    with pytest.raises(RecordMismatch, match="not the one that was written here"):
        open_journal(str(state))


def test_a_run_of_another_journal_is_not_taken_for_one_of_this(state: Path, tmp_path: Path) -> None:
    other = open_journal(str(tmp_path / "other"))
    for run in ("o1", "o2", "o3", "o4"):
        write_run(other, run, 20)
    other.close()
    change(
        state,
        f"ATTACH '{tmp_path}/other/journal.db' AS other",
        "INSERT INTO runs SELECT * FROM other.runs WHERE number = 4",
        "INSERT INTO entries SELECT * FROM other.entries WHERE id >> 32 = 4",
    )
    assert breaks(state) == [("o4", 0, "row")]


def test_a_journal_that_is_deleted_is_missed_and_the_next_runs_do_not_hide_that(state: Path) -> None:
    shutil.rmtree(state)
    assert [run for run, _, _ in breaks(state)] == ["r1", "r2", "r3"]
    journal = open_journal(str(state))
    write_run(journal, "r4", 5)
    journal.close()
    assert breaks(state) == [(run, 1, "cut") for run in ("r1", "r2", "r3")]
    assert breaks(state, "r4") == []


def test_nobody_acts_on_a_run_that_is_not_what_was_written(state: Path) -> None:
    change(state, f"UPDATE entries SET body = replace(body, 't0', 't9') WHERE id = {3 << 32 | 2}")
    journal = open_journal(str(state))
    with pytest.raises(RecordMismatch, match="event 2 does not follow") as caught:
        journal.acquire("r3")
    assert "planrunner audit accept r3" in caught.value.hint
    journal.release(journal.acquire("r2"))
    assert not journal.is_leased("r3")
    journal.close()


def test_a_run_of_a_cut_journal_is_not_gone_on_with(state: Path) -> None:
    change(state, f"DELETE FROM entries WHERE id = {3 << 32 | 20}")
    journal = open_journal(str(state))
    with pytest.raises(RecordMismatch, match="event 20 is missing at the end"):
        journal.acquire("r3")
    journal.close()


def test_what_a_person_accepts_is_covered_from_then_on_and_the_acceptance_is_kept(state: Path) -> None:
    change(
        state, f"UPDATE entries SET at = 5 WHERE id = {2 << 32 | 9}", f"DELETE FROM entries WHERE id >= {3 << 32 | 11}"
    )
    change(state, "DELETE FROM entries WHERE id >> 32 = 1", "DELETE FROM runs WHERE number = 1")
    told = accept(str(state), None, {"by": "ann", "at": 7.0, "because": "a disk was restored"})
    assert sorted((each.run, each.kind) for each in told.breaks) == [("r1", "cut"), ("r2", "changed"), ("r3", "cut")]
    assert breaks(state) == []
    assert [each.since for each in verify_journal(str(state)).runs] == [EVENTS, 10]
    (kept,) = accepted(str(state))
    assert (kept["by"], kept["because"], len(kept["breaks"])) == ("ann", "a disk was restored", 3)  # type: ignore[arg-type]
    journal = open_journal(str(state))
    handle = journal.acquire("r3")
    journal.append(handle, numbered(10, TaskQueued("more")))
    journal.release(handle)
    journal.close()
    assert breaks(state) == []
    change(state, f"UPDATE entries SET at = 6 WHERE id = {2 << 32 | 9}")
    assert breaks(state) == [("r2", EVENTS, "changed")]


def test_what_cannot_be_gone_on_with_is_not_accepted(state: Path) -> None:
    change(state, f"DELETE FROM entries WHERE id = {2 << 32 | 9}")
    with pytest.raises(StorageFailed, match="event 9 of run `r2` is missing"):
        accept(str(state), "r2", {"by": "ann"})
    assert breaks(state) == [("r2", 9, "missing")]


def test_an_anchor_kept_elsewhere_tells_what_even_the_holder_of_the_key_changed(state: Path) -> None:
    anchors = [Anchor(each.run, each.events, each.link) for each in verify_journal(str(state)).runs]
    journal = open_journal(str(state))
    handle = journal.acquire("r3")
    journal.append(handle, numbered(20, TaskQueued("a")))
    journal.release(handle)
    journal.close()
    assert verify_journal(str(state), None, anchors).breaks == ()
    change(
        state, f"UPDATE entries SET at = 5 WHERE id = {2 << 32 | 9}", f"DELETE FROM entries WHERE id >= {3 << 32 | 11}"
    )
    accept(str(state), None, {"by": "mallory"})
    found = verify_journal(str(state), None, anchors).breaks
    assert [(each.run, each.seq, each.kind) for each in found] == [("r2", EVENTS, "anchor"), ("r3", 11, "cut")]


def test_without_the_key_only_anchors_tell(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchors = [Anchor(each.run, each.events, each.link) for each in verify_journal(str(state)).runs]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    assert {kind for _, _, kind in breaks(state)} == {"key"}
    assert verify_journal(str(state), None, anchors).breaks == ()
    change(state, f"UPDATE entries SET at = 5 WHERE id = {2 << 32 | 9}")
    assert [each.kind for each in verify_journal(str(state), None, anchors).breaks] == ["key", "anchor"]


def test_under_another_key_a_run_goes_on_once_a_person_accepts_it(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "container"))
    with pytest.raises(
        RecordMismatch, match=f"does not bear your key {tmp_path}/container/planrunner/audit.key"
    ) as refused:
        open_journal(str(state))
    assert "made with another HOME: name its key in PLANRUNNER_AUDIT_KEY_FILE" in refused.value.hint
    with pytest.raises(RecordMismatch, match="was not written by your planrunner"):
        accept(str(state), "r3", {"by": "ann"})
    accept(str(state), None, {"by": "ann"})
    journal = open_journal(str(state))
    handle = journal.acquire("r3")
    journal.append(handle, numbered(20, TaskQueued("a")))
    journal.release(handle)
    journal.close()
    assert breaks(state) == []
    assert verify_journal(str(state), "r3").runs[0].since == 20


def test_where_no_key_can_be_kept_a_run_is_written_without_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    journal = open_journal(str(tmp_path / "state"))
    assert "no key can be kept" in journal.notices[0]
    write_run(journal, "r1", 20)
    journal.close()
    assert [kind for _, _, kind in breaks(tmp_path / "state")] == ["key"]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    with pytest.raises(RecordMismatch, match="does not bear your key"):  # whoever wrote it, nobody can tell now
        open_journal(str(tmp_path / "state"))
    assert [kind for _, _, kind in breaks(tmp_path / "state")] == ["unchained"]


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_key_that_others_can_read_is_refused(
    state: Path, tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("k" * 64)
    (tmp_path / "key").chmod(mode)
    monkeypatch.setenv("PLANRUNNER_AUDIT_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(StorageFailed, match="not a file that is yours alone") as caught:
        open_journal(str(state))
    assert f"chmod 600 {tmp_path / 'key'}" in caught.value.hint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("short"), "is damaged"),
        (lambda path: path.symlink_to("/etc/hostname"), "cannot be used"),
        (lambda path: path.mkdir(), "Is a directory"),
    ],
)
def test_a_key_that_is_none_is_refused(
    state: Path, tmp_path: Path, make: Callable[[Path], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "key")
    if (tmp_path / "key").is_file() and not (tmp_path / "key").is_symlink():
        (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv("PLANRUNNER_AUDIT_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(StorageFailed, match=message):
        open_journal(str(state))


def test_a_key_inside_the_state_directory_is_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANRUNNER_AUDIT_KEY_FILE", str(state / "key"))
    with pytest.raises(StorageFailed, match="lies in the state directory"):
        open_journal(str(state))


def test_key_and_heads_are_private_whatever_the_umask(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.umask(int(sys.argv[2], 8))\n"
        "from planrunner.journal.sqlite import open_journal; open_journal(sys.argv[1]).close()"
    )
    for mask in ("000", "027"):
        home = tmp_path / mask
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(home / "data")}
        home.mkdir()
        (home / "data").mkdir()
        command = [sys.executable, "-c", code, str(home / "state"), mask]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        for path in [home / "state", *(home / "data").rglob("*"), *(home / "state").rglob("*")]:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), (mask, path)


def test_heads_that_were_changed_are_found(state: Path) -> None:
    path = Path(verify_journal(str(state)).heads)
    for place in (0, 20, 120, 128, 300, 511):
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)
        assert "head" in {kind for _, _, kind in breaks(state)}, place
        content[place] ^= 1
        path.write_bytes(content)
    assert breaks(state) == []


def test_heads_that_are_behind_after_a_crash_mean_nothing(state: Path) -> None:
    path = Path(verify_journal(str(state)).heads)
    before = path.read_bytes()
    journal = open_journal(str(state))
    handle = journal.acquire("r3")
    journal.append(handle, numbered(20, TaskQueued("a"), TaskQueued("b")))
    journal.release(handle)
    write_run(journal, "r4", 5)
    journal.close()
    path.write_bytes(before)
    found = verify_journal(str(state))
    assert not found.breaks
    assert [(each.events, each.anchored) for each in found.runs] == [(20, 20), (EVENTS, EVENTS), (22, 20), (5, 0)]


def bodies(state: Path) -> set[str]:
    """The events as SQLite reads them; none where it cannot."""
    try:
        return {str(row[0]) for row in sqlite3.connect(state / "journal.db").execute("SELECT body FROM entries")}
    except sqlite3.DatabaseError:
        return set()


def test_no_damage_to_the_file_ends_in_a_foreign_exception_and_none_in_what_is_read_goes_unseen(state: Path) -> None:
    content = (state / "journal.db").read_bytes()
    there = bodies(state)
    places = [place for body in sorted(there)[::40] if (place := content.find(body.encode())) >= 0]
    reached = 0
    for place in [*range(0, 100, 7), *range(100, len(content), 1499), *places]:
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        (state / "journal.db").write_bytes(damaged)
        found = breaks(state)
        if place in places and bodies(state) != there:  # what a page that was split left behind is not read
            reached += 1
            assert found, place
    assert reached > len(places) // 2
    for keep in (0, 1, 99, 5000, len(content) // 2, len(content) - 1):
        (state / "journal.db").write_bytes(content[:keep])
        assert breaks(state), keep
    (state / "journal.db").write_bytes(content)
    assert breaks(state) == []


def test_a_log_that_is_cut_short_is_a_cut_journal(state: Path, tmp_path: Path) -> None:
    writer = open_journal(str(state))
    handle = writer.acquire("r3")
    for number in range(30):
        writer.append(handle, numbered(handle.last_seq, TaskQueued(f"a{number}")))
    shutil.copytree(state, tmp_path / "copy")
    writer.release(handle)
    writer.close()
    log = (tmp_path / "copy" / "journal.db-wal").read_bytes()
    for keep in range(0, len(log), len(log) // 40):
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "copy", state)
        (state / "journal.db-shm").unlink()
        (state / "journal.db-wal").write_bytes(log[:keep])
        found = verify_journal(str(state))
        ((events, kinds),) = [
            (each.events, [one.kind for one in found.breaks]) for each in found.runs if each.run == "r3"
        ]
        assert kinds == ([] if events == 50 else ["cut"]), (keep, found)


def test_there_is_nothing_to_verify_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        verify_journal(str(tmp_path / "state"))
    assert os.listdir(tmp_path) == []


def test_the_chain_costs_no_more_rows_and_each_event_has_a_mac_of_its_own(state: Path) -> None:
    connection = sqlite3.connect(state / "journal.db")
    assert connection.execute("SELECT count(*), count(DISTINCT mac), max(length(mac)) FROM entries").fetchone() == (
        EVENTS + 40, EVENTS + 40, 16,
    )  # fmt: skip
    connection.close()


def test_the_same_events_under_another_key_have_other_macs(tmp_path: Path) -> None:
    one, two = Chain(str(tmp_path), b"1" * 32), Chain(str(tmp_path), b"2" * 32)
    row = (1, 1.0, "task_queued", 1, "{}")
    assert one.extend(b"", [row])[1] == two.extend(b"", [row])[1]
    assert one.extend(b"", [row])[0] != two.extend(b"", [row])[0]
    assert one.heads_path != two.heads_path
