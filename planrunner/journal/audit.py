"""The proof of a journal that lies in a database: its rows against its chain, its heads and anchors."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from json import loads
from typing import TYPE_CHECKING

from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError, RecordMismatch, StorageFailed
from planrunner.journal.chain import Chain, Head, known_chain
from planrunner.journal.database import (
    FILE,
    TABLES,
    Connection,
    failure,
    open_checked,
    open_database,
    sqlite3,
)
from planrunner.journal.proof import (
    Anchor,
    Break,
    ChainedRun,
    EventRow,
    Pruned,
    Sealed,
    StoredRun,
    Verdict,
    cut,
    is_ours,
    record_breaks,
    walk,
)

if TYPE_CHECKING:
    from planrunner.journal.records import Lease

BITS = 32
_PAGE = 512
_ROWS = (
    "SELECT id - ?1, CASE typeof(at) WHEN 'real' THEN at ELSE CAST(at AS BLOB) END, CAST(kind AS BLOB),"
    " CASE typeof(version) WHEN 'integer' THEN version ELSE CAST(version AS BLOB) END, CAST(body AS BLOB),"
    " CAST(mac AS BLOB), typeof(at) = 'real' AND typeof(kind) = 'text' AND"
    " typeof(version) = 'integer' AND typeof(body) = 'text' AND typeof(mac) IN ('blob', 'null')"
    " FROM entries WHERE id >= ?1 + ?2 AND id < ?1 + 4294967296 ORDER BY id LIMIT ?3"
)
_RUN = "SELECT number, run, plan_id, plan_digest, created, since, epoch, status, ended, seal FROM runs"
_PLANS = (
    "SELECT CAST(body AS BLOB) FROM entries WHERE id >= ?1 AND id < ?1 + 4294967296"
    " AND kind IN ('run_started', 'run_revised')"
)
_PLAN = "SELECT digest, text, name, notation, compiled, seal FROM plans WHERE digest = ?"
_RECORDS = (
    "SELECT number, run, plan_id, created, status, ended, last_seq, link, at, by, seal FROM pruned ORDER BY number"
)
_ENDLESS = (  # what stands where a table should, and might answer for ever: a view or a virtual table
    "SELECT type, name FROM sqlite_master WHERE type = 'view' AND name != 'events'"
    " OR type = 'table' AND sql NOT LIKE 'CREATE TABLE%' LIMIT 1"
)


def verify_journal(state: str, run: str | None = None, anchors: Sequence[Anchor] = ()) -> Verdict:
    """Compare a journal, or one run, with its chain, its heads and anchors. Whatever is damaged is a break.

    Raises NotFound where no journal is and none was known, StorageFailed for a key that is not safe.
    """
    chain = known_chain(state)
    try:
        heads, head_breaks = read_heads(chain)  # before the journal: what is written meanwhile is not cut
        wanted = None if run is None else frozenset({run})
        try:
            connection = open_database(state)
        except NotFound:
            if not heads:
                raise
            return Verdict((), (*head_breaks, *_gone(heads, wanted, frozenset())), chain.heads_path)
        except PlanrunnerError as error:
            return Verdict((), (*head_breaks, Break("", 0, "damaged", error.message)), chain.heads_path)
        else:
            chained, breaks = inspect(connection, chain, heads, wanted, anchors)
            pruned = _count(connection, wanted)
            connection.close()
            if chain.key is None and any(each.kind == "key" for each in breaks) and known_chain(state).key is not None:
                return verify_journal(state, run, anchors)  # the first run of this user made the key meanwhile
            return Verdict(tuple(chained), (*head_breaks, *breaks), chain.heads_path if chain.anchored else "", pruned)
    finally:
        chain.close()


def exported(state: str, run: str | None = None) -> Iterator[tuple[Sealed, Iterator[EventRow]]]:
    """The runs of a journal, or one, with their events, all of one moment. Raises NotFound, StorageFailed; so does the
    iterator."""
    return _exported(open_checked(state), os.path.join(state, FILE), run)


def _exported(connection: Connection, path: str, run: str | None) -> Iterator[tuple[Sealed, Iterator[EventRow]]]:
    try:
        connection.execute("BEGIN")
        for row in sealed_rows(connection, run):
            yield row, entries_of(connection, row.number)
    except sqlite3.Error as error:
        raise failure(error, path) from error
    finally:
        connection.close()


def take_up(connection: Connection, chain: Chain, handle: Lease) -> None:
    """Inside a transaction: raise the epoch of a run and give the handle what it goes on from.

    Raises RecordMismatch for a run that is not what was written, or was written under another key; StorageFailed for
    damaged heads; the errors of SQLite.
    """
    row = sealed_rows(connection, handle.run)[0]
    handle.link = _compared(connection, chain, row, chain.head(row.number))
    handle.number, handle.epoch = row.number, row.epoch + 1
    handle.row = row[:6]
    seal = chain.seal(*handle.row, handle.epoch, row.status, row.ended)
    connection.execute("UPDATE runs SET epoch = ?, seal = ? WHERE number = ?", (handle.epoch, seal, row.number))


def prove(connection: Connection, chain: Chain, run: str) -> None:
    """Compare a run that another process may hold. Raises as ``take_up``."""
    if chain.key is None:
        return
    head = chain.head(sealed_rows(connection, run)[0].number)  # first: the events go at least as far
    connection.execute("BEGIN")  # row and events of one moment
    try:
        _compared(connection, chain, sealed_rows(connection, run)[0], head)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def refused(run: str, why: str) -> RecordMismatch:
    """The error for a run that is not what was written."""
    return RecordMismatch(
        f"run `{run}` was changed after it was written and is not used: {why}",
        Hint(
            "see ",
            NextStep("audit verify", run),
            "; restore the state directory from a copy, or accept the run as it is with ",
            NextStep("audit accept", run),
        ),
    )


def read_heads(chain: Chain) -> tuple[dict[int, Head], list[Break]]:
    """All heads of a place by the number of the run, and what is wrong with them."""
    heads: dict[int, Head] = {}
    breaks: list[Break] = []
    try:
        chain.open_heads(write=False)
    except StorageFailed as error:
        breaks.append(Break("", 0, "head", error.message))
    for number in range(1, chain.count() + 1):
        try:
            head = chain.head(number)
        except StorageFailed as error:
            breaks.append(Break("", 0, "head", error.message))
            continue
        if head is not None:
            heads[number] = head
    return heads, breaks


def inspect(
    connection: Connection,
    chain: Chain,
    heads: dict[int, Head],
    wanted: frozenset[str] | None = None,
    anchors: Sequence[Anchor] = (),
) -> tuple[list[ChainedRun], list[Break]]:
    """The runs of an open journal and its breaks; ``wanted`` are ids of runs, None for all and the journal itself."""
    try:
        if odd := connection.execute(_ENDLESS).fetchone():
            message = f"the {odd[0]} `{odd[1]}` of the database is not as planrunner makes it"
            return [], [Break("", 0, "layout", message)]
        all_breaks = _whole(connection, chain) if wanted is None else []
        named = connection.execute("SELECT journal FROM audit").fetchone()
        if named is not None and chain.journal in (b"", named[0]):
            chain.journal = named[0] if isinstance(named[0], bytes) else b""
        else:
            all_breaks.append(Break("", 0, "journal", "the journal is not the one that was written here before"))
        rows = sealed_rows(connection)
        chained: list[ChainedRun] = []
        for number, name in [(row.number, row.run) for row in rows if wanted is None or row.run in wanted]:
            told, breaks = _inspect_run(connection, chain, name, heads.get(number), anchors)
            chained += told
            all_breaks += breaks
        gone = pruned_rows(connection)
        all_breaks += record_breaks(chain, heads, [each for each in gone if _in(each.run, wanted)])
        all_breaks += _gone(heads, wanted, frozenset({row.number for row in rows} | {each.number for each in gone}))
        there = {row.run for row in rows}
        missed = [each for each in anchors if each.run not in there and _in(each.run, wanted)]
        all_breaks += _anchor_breaks({each.run: each for each in gone}, missed)
    except sqlite3.Error as error:
        return [], [Break("", 0, "damaged", f"the journal cannot be read: {error}")]
    return chained, all_breaks


def sealed_rows(connection: Connection, run: str | None = None) -> list[Sealed]:
    """The rows of all runs, or of one. Raises the errors of SQLite."""
    if run is None:
        return [Sealed(*row) for row in connection.execute(f"{_RUN} ORDER BY number")]
    return [Sealed(*row) for row in connection.execute(f"{_RUN} WHERE run = ?", (run,))]


def entries_of(connection: Connection, number: int) -> Iterator[EventRow]:
    """The rows of a run: seq, at, kind, version, body, mac, and whether they have the types they should; texts are
    bytes."""
    first, after = number << BITS, 0
    while True:
        rows = connection.execute(_ROWS, (first, after, _PAGE)).fetchall()
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1][0] + 1


def stored_run(connection: Connection, row: Sealed) -> StoredRun:
    """A run as the database has it; its events are read as they are walked. Raises the errors of SQLite."""
    plans = [connection.execute(_PLAN, (digest,)).fetchone() for digest in plans_of(connection, row)]
    # the journal of a program that kept none has no plans; loading one reports it
    return StoredRun(row, entries_of(connection, row.number), [plan for plan in plans if plan is not None])


def plans_of(connection: Connection, row: Sealed) -> list[object]:
    """The keys under which the plans of a run are stored: of the one it began with, and of its revisions. Raises the
    errors of SQLite."""
    digests = {row.plan_digest: None} if isinstance(row.plan_digest, str) else {}
    for (body,) in connection.execute(_PLANS, (row.number << BITS,)).fetchall():
        try:
            event = loads(body)
            digests[str(event.get("environment", {}).get("text") or event["plan_digest"])] = None
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # an event that is not as it was written is found by the chain
    return list(digests)


def pruned_rows(connection: Connection) -> list[Pruned]:
    """The records of all pruned runs. Raises the errors of SQLite."""
    return [Pruned(*row) for row in connection.execute(_RECORDS)]


def seal(connection: Connection, chain: Chain, runs: Container[str]) -> set[int]:
    """Seal the records of ``runs`` as they stand; the numbers of the other pruned runs. Raises the errors of SQLite."""
    records = pruned_rows(connection)
    for each in records:
        if each.run in runs:
            connection.execute("UPDATE pruned SET seal = ? WHERE number = ?", (chain.seal(*each[:-1]), each.number))
    return {each.number for each in records if each.run not in runs}


def _compared(connection: Connection, chain: Chain, row: Sealed, head: Head | None) -> bytes:
    """The last link of a run that is what was written; without a key nothing is compared, and there is none."""
    if chain.key is None:
        return b""
    walked, breaks = walk(stored_run(connection, row), chain, head)
    if breaks:
        raise refused(row.name, breaks[0].message)
    return walked.link


def _inspect_run(
    connection: Connection, chain: Chain, run: str, head: Head | None, anchors: Sequence[Anchor]
) -> tuple[list[ChainedRun], list[Break]]:
    known = [anchor for anchor in anchors if anchor.run == run]
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # row and events of one moment
    try:
        row = sealed_rows(connection, run)[0]
        walked, breaks = walk(stored_run(connection, row), chain, head, frozenset(anchor.seq for anchor in known))
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    for anchor in known:
        if walked.found is None and anchor.seq > walked.seq:
            breaks.append(cut(run, walked.seq, anchor.seq))
        elif walked.found is None and walked.marks[anchor.seq].hex() != anchor.link:
            breaks.append(Break(run, anchor.seq, "anchor", f"event {anchor.seq} is not the one that the anchor knows"))
    if any(anchor.seq == walked.seq for anchor in known) and {each.kind for each in breaks} == {"key"}:
        breaks = []  # without a key only the anchor of its very last event proves it
    since = row.since if isinstance(row.since, int) and is_ours(chain, row.seal) else 0
    return [ChainedRun(row.name, walked.seq, walked.link.hex(), since, head[0] if head else 0)], breaks


def _gone(heads: dict[int, Head], wanted: frozenset[str] | None, there: frozenset[int]) -> list[Break]:
    """Runs that the heads know and the journal has not."""
    return [
        cut(name, 0, seq) for number, (seq, _, _, name) in heads.items() if number not in there and _in(name, wanted)
    ]


def _anchor_breaks(pruned: dict[str, Pruned], anchors: Sequence[Anchor]) -> list[Break]:
    """Anchors of runs that the journal has not, against the records of those that were pruned."""
    breaks = []
    for anchor in anchors:
        last = pruned[anchor.run].last_seq if anchor.run in pruned else 0
        if anchor.seq > last:
            breaks.append(cut(anchor.run, last, anchor.seq))
        elif anchor.seq == last and pruned[anchor.run].link.hex() != anchor.link:
            message = f"event {anchor.seq} is not the one that the anchor knows"
            breaks.append(Break(anchor.run, anchor.seq, "anchor", message))
    return breaks


def _count(connection: Connection, wanted: frozenset[str] | None) -> int:
    try:
        return sum(_in(each.run, wanted) for each in pruned_rows(connection))
    except sqlite3.Error:
        return 0  # a journal that cannot be read is told as damaged


def _in(run: str, wanted: frozenset[str] | None) -> bool:
    return wanted is None or run in wanted


def _whole(connection: Connection, chain: Chain) -> list[Break]:
    """Damage to the file, tables that are not ours, and events that belong to no run."""
    told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    breaks = [Break("", 0, "damaged", " ".join(line.split())) for line in told if line != "ok"]
    ours = _layout()
    there = set(
        connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    )
    for kind, name, _ in sorted(there ^ ours, key=str):
        message = f"the {kind} `{name}` of the database is not as planrunner makes it"
        if (each := Break("", 0, "layout", message)) not in breaks:
            breaks.append(each)
    lost = connection.execute("SELECT DISTINCT id >> 32 FROM entries WHERE id >> 32 NOT IN (SELECT number FROM runs)")
    breaks += [
        Break("", 0, "inserted", f"there are events of a run {number}, which does not exist") for (number,) in lost
    ]
    return breaks


def _layout() -> set[tuple[str, str, str]]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statement in TABLES:
            connection.execute(statement)
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    finally:
        connection.close()
