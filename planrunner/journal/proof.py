"""The proof of a journal: where its rows, plans and events differ from what was written."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.errors import NotFound, PlanrunnerError, RecordMismatch, StorageFailed
from planrunner.journal.chain import Chain, Head, first_link, key_path, mac_of, next_link, read_key
from planrunner.journal.database import CHAINED, MIGRATIONS, Connection, open_database, sqlite3

if TYPE_CHECKING:
    from planrunner.journal.records import RunHandle

BITS = 32
_PAGE = 512
_ROWS = (
    "SELECT id - ?1, at, kind, version, body, mac, typeof(at) = 'real' AND typeof(kind) = 'text' AND"
    " typeof(version) = 'integer' AND typeof(body) = 'text' AND typeof(mac) IN ('blob', 'null')"
    " FROM entries WHERE id >= ?1 + ?2 AND id < ?1 + 4294967296 ORDER BY id LIMIT ?3"
)
_RUN = "SELECT number, run, plan_id, plan_digest, created, since, epoch, status, ended, seal FROM runs"


_PLANS = (
    "SELECT CAST(body AS BLOB) FROM entries WHERE id >= ?1 AND id < ?1 + 4294967296"
    " AND kind IN ('run_started', 'run_revised')"
)


def plans_of(connection: Connection, row: Sealed) -> list[object]:
    """The keys under which the plans of a run are stored: of the one it began with, and of its revisions. Raises the
    errors of SQLite."""
    found = {row.plan_digest: None} if isinstance(row.plan_digest, str) else {}
    for (body,) in connection.execute(_PLANS, (row.number << BITS,)).fetchall():
        try:
            event = loads(body)
            found[str(event.get("environment", {}).get("text") or event["plan_digest"])] = None
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # an event that is not as it was written is found by the chain
    return list(found)


class Sealed(NamedTuple):
    """The row of a run as it is stored, whatever anybody made of its types."""

    number: int
    run: Any
    plan_id: Any
    plan_digest: Any
    created: Any
    since: Any
    """The first event that bears a mac; those before are covered by it together."""
    epoch: Any
    status: Any
    ended: Any
    seal: Any

    @property
    def name(self) -> str:
        """The id of the run for messages."""
        return self.run if isinstance(self.run, str) else str(self.run)


class Break(NamedTuple):
    """Where a journal is not what was written. ``seq`` is the event (0: the run as a whole), ``run`` the id (empty: the
    journal as a whole); ``kind`` is one of those in ``docs/how-to/prove-what-happened.md``."""

    run: str
    seq: int
    kind: str
    message: str


class Walk(NamedTuple):
    """How far a run chains: its last event and link, the last event as it is stored (kind, body), and the first break.
    ``marks`` holds the links of the events that were asked for."""

    seq: int
    link: bytes
    last: tuple[str, bytes, float]
    found: Break | None
    marks: dict[int, bytes]


def sealed_rows(connection: Connection, run: str | None = None) -> list[Sealed]:
    """The rows of all runs, or of one. Raises the errors of SQLite."""
    if run is None:
        return [Sealed(*row) for row in connection.execute(f"{_RUN} ORDER BY number")]
    return [Sealed(*row) for row in connection.execute(f"{_RUN} WHERE run = ?", (run,))]


def entries_of(connection: Connection, number: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a run as bytes: seq, at, kind, version, body, mac, and whether they have the types they should."""
    before, first, after = connection.text_factory, number << BITS, 0
    connection.text_factory = bytes
    try:
        while True:
            rows = connection.execute(_ROWS, (first, after, _PAGE)).fetchall()
            yield from rows
            if len(rows) < _PAGE:
                return
            after = rows[-1][0] + 1
    finally:
        connection.text_factory = before


def stored_form(seq: int, at: float, kind: bytes, version: int, body: bytes) -> bytes:
    """What the link of an event covers beside the link before."""
    return b"%d %b %d %b %b" % (seq, repr(at).encode(), version, kind, body)


def walk(connection: Connection, row: Sealed, key: bytes | None, wanted: frozenset[int] = frozenset()) -> Walk:
    """Follow the links of a run up to the first break; with a ``key`` every mac is compared, without one (None) only
    numbers and types. Raises the errors of SQLite, TypeError and ValueError for what no row of a run can hold."""
    link, seq, last = (
        first_link(row.name, str(row.plan_id), str(row.plan_digest), float(row.created)),
        0,
        ("", b"", 0.0),
    )
    marks: dict[int, bytes] = {}
    since = row.since if isinstance(row.since, int) else 1

    def stop(at: int, kind: str, message: str) -> Walk:
        return Walk(seq, link, last, Break(row.name, at, kind, message), marks)

    for number, at, kind, version, body, mac, typed in entries_of(connection, row.number):
        if number != seq + 1:
            if number < 1:
                return stop(number, "inserted", f"there is an event {number}, and the first one is 1")
            gone = f"event {seq + 1} is" if number == seq + 2 else f"events {seq + 1} to {number - 1} are"
            return stop(seq + 1, "missing", f"{gone} missing")
        if not typed or not kind.replace(b"_", b"").isalnum():
            return stop(number, "changed", f"event {number} is not stored as planrunner stores it")
        following = next_link(link, stored_form(number, at, kind, version, body))
        if key is not None and number >= since and (mac is None or mac != mac_of(following, key)):
            what = "bears no mac" if mac is None else "does not follow from the ones before it"
            before = " or one before it" if number == since > 1 else ""
            return stop(number, "changed", f"event {number} {what}: it{before} was changed, moved, inserted or forged")
        link, seq, last = following, number, (kind.decode("ascii", "replace"), body, at)
        if number in wanted:
            marks[number] = link
    return Walk(seq, link, last, None, marks)


_ROW = "the row of the run is not the one that was written"
_PLAN = "SELECT digest, text, name, notation, compiled, seal FROM plans WHERE digest = ?"


def breaks_of(
    connection: Connection, chain: Chain, row: Sealed, head: Head | None, wanted: frozenset[int] = frozenset()
) -> tuple[Walk, list[Break]]:
    """How far a run chains, and every break that was found; ``wanted`` are further events whose links are asked for.
    Raises the errors of SQLite."""
    found = _row_breaks(chain, row)
    known = head[0] if head is not None else 0
    try:
        walked = walk(connection, row, chain.key if is_ours(chain, row.seal) else None, wanted | {known})
    except (TypeError, ValueError):  # the row holds what no row can
        return Walk(0, b"", ("", b"", 0.0), None, {}), found or [Break(row.name, 0, "row", _ROW)]
    if walked.found is not None:
        found.append(walked.found)
    if head is not None:
        found += _head_breaks(row, walked, head)
    if not found:  # else they do not fit because of that
        found += _ending_breaks(row, walked)
    return walked, [*found, *_plan_breaks(connection, chain, row)]


def is_ours(chain: Chain, seal: object) -> bool:
    """Whether a seal was made with the key that is here."""
    return chain.key is not None and isinstance(seal, bytes) and seal[: len(chain.key_id)] == chain.key_id


def _row_breaks(chain: Chain, row: Sealed) -> list[Break]:
    if chain.key is None:
        return [Break(row.name, 0, "key", f"nothing can be compared: {chain.unchained}")]
    if row.seal is None:
        return [Break(row.name, 0, "unchained", "the run bears no seal: it was written without a key, or forged")]
    if not is_ours(chain, row.seal):
        other = row.seal[: len(chain.key_id)].hex() if isinstance(row.seal, bytes) else "none"
        return [Break(row.name, 0, "key", f"the run was written under another key ({other}), which is not here")]
    if row.seal != chain.seal(*row[:-1]):
        return [Break(row.name, 0, "row", _ROW)]
    return []


def _plan_breaks(connection: Connection, chain: Chain, row: Sealed) -> list[Break]:
    """A run acts on the plans that are stored for it."""
    return [
        found for digest in plans_of(connection, row) for found in _stored_plan_breaks(connection, chain, row, digest)
    ]


def _stored_plan_breaks(connection: Connection, chain: Chain, row: Sealed, digest: object) -> list[Break]:
    plan = connection.execute(_PLAN, (digest,)).fetchone()
    if plan is None:
        return []  # the journal of a program that kept none; whoever needs the plan is told
    if is_ours(chain, plan[-1]) and plan[-1] != chain.seal(*plan[:-1]):
        return [Break(row.name, 0, "plan", "the plan that is stored for the run is not the one that was written")]
    if chain.key is not None and is_ours(chain, row.seal) and not is_ours(chain, plan[-1]):
        return [Break(row.name, 0, "plan", "the plan that is stored for the run bears no seal of its key")]
    return []


def _ending_breaks(row: Sealed, walked: Walk) -> list[Break]:
    """Status and end of a run are those of its last event, or empty."""
    kind, body, at = walked.last
    status, ended = "", None
    if kind == "run_ended":
        status, ended = str(loads(body).get("status", "")), at
    if (row.status, row.ended) == (status, ended):
        return []
    told, truth = row.status or "not ended", status or "not ended"
    return [Break(row.name, 0, "row", f"the row of the run says `{told}`, its events say `{truth}`")]


def _head_breaks(row: Sealed, walked: Walk, head: Head) -> list[Break]:
    seq, epoch, link, name = head
    if not row.name.startswith(name):
        return [Break(row.name, 0, "head", f"in its place the head knows run `{name}`")]
    if walked.found is None and seq > walked.seq:
        return [cut(row.name, walked.seq, seq)]
    if walked.found is None and seq and walked.marks.get(seq) != link:
        return [Break(row.name, seq, "head", f"event {seq} is not the one that its head knows")]
    if isinstance(row.epoch, int) and row.epoch < epoch:
        return [Break(row.name, 0, "cut", f"its row is older than its head: epoch {row.epoch}, not {epoch}")]
    return []


def cut(run: str, last: int, known: int) -> Break:
    """The break of a run that ends before an event that is known of it."""
    gone = f"event {known} is" if known == last + 1 else f"events {last + 1} to {known} are"
    return Break(run, last + 1, "cut", f"{gone} missing at the end: it was cut, or an old copy put back")


def take_up(connection: Connection, chain: Chain, handle: RunHandle) -> None:
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


def _compared(connection: Connection, chain: Chain, row: Sealed, head: Head | None) -> bytes:
    """The last link of a run that is what was written; without a key nothing is compared, and there is none."""
    if chain.key is None:
        return b""
    walked, found = breaks_of(connection, chain, row, head)
    if found:
        raise refused(row.name, found[0].message)
    return walked.link


def refused(run: str, why: str) -> RecordMismatch:
    """The error for a run that is not what was written."""
    return RecordMismatch(
        f"run `{run}` is not what was written, so nobody acts on it: {why}",
        f"`planrunner audit verify {run}` tells more; restore the state directory from a copy, or take the run as it is"
        f" with `planrunner audit accept {run}`",
    )


if TYPE_CHECKING:
    pass


PRUNED = 7
"""The version of the tables that brought the records of pruned runs."""

_RECORDS = (
    "SELECT number, run, plan_id, created, status, ended, last_seq, link, at, by, seal FROM pruned ORDER BY number"
)


class Pruned(NamedTuple):
    """The record of a pruned run as it is stored, whatever anybody made of its types: the row that the run had, its
    last event and the link of that, when it was pruned (seconds since 1970) and by whom."""

    number: int
    run: Any
    plan_id: Any
    created: Any
    status: Any
    ended: Any
    last_seq: Any
    link: Any
    at: Any
    by: Any
    seal: Any


def pruned_rows(connection: Connection) -> list[Pruned]:
    """The records of all pruned runs. Raises the errors of SQLite."""
    if int(connection.execute("PRAGMA user_version").fetchone()[0]) < PRUNED:
        return []  # an older planrunner wrote the journal, and nobody has written since
    return [Pruned(*row) for row in connection.execute(_RECORDS)]


def seal(connection: Connection, chain: Chain, runs: Container[str]) -> set[int]:
    """Seal the records of ``runs`` as they stand; the numbers of the other pruned runs. Raises the errors of SQLite."""
    found = pruned_rows(connection)
    for each in found:
        if each.run in runs:
            connection.execute("UPDATE pruned SET seal = ? WHERE number = ?", (chain.seal(*each[:-1]), each.number))
    return {each.number for each in found if each.run not in runs}


def record_breaks(chain: Chain, heads: dict[int, Head], found: Iterable[Pruned]) -> list[Break]:
    """The records that are not what was written, and those whose head knows more of the run."""
    return [each for record in found for each in _breaks(chain, heads.get(record.number), record)]


def _breaks(chain: Chain, head: Head | None, record: Pruned) -> list[Break]:
    run = str(record.run)
    if chain.key is None:
        return [Break(run, 0, "key", f"nothing can be compared: {chain.unchained}")]
    if record.seal is None:
        return [Break(run, 0, "unchained", "the record that the run was pruned bears no seal: made without a key")]
    if not is_ours(chain, record.seal):
        return [Break(run, 0, "key", "the run was pruned under another key, which is not here")]
    if record.seal != chain.seal(*record[:-1]):
        return [Break(run, 0, "pruned", "the record that the run was pruned is not the one that was written")]
    if head is None:
        return []
    if not run.startswith(head[3]):
        return [Break(run, 0, "head", f"in its place the head knows run `{head[3]}`")]
    if head[0] > record.last_seq:
        return [cut(run, record.last_seq, head[0])]
    if head[0] == record.last_seq and head[2] != record.link:
        return [Break(run, head[0], "head", f"event {head[0]} is not the one that its head knows")]
    return []


_ENDLESS = (
    "SELECT type, name FROM sqlite_master WHERE type = 'view' AND name != 'events'"
    " OR type = 'table' AND sql NOT LIKE 'CREATE TABLE%' LIMIT 1"
)


class Anchor(NamedTuple):
    """What somebody keeps elsewhere of a run: an event and its link in hexadecimal digits."""

    run: str
    seq: int
    link: str


class Standing(NamedTuple):
    """A run as far as it chains: its last event and link, the first event with a mac of its own (those before are
    covered by it together), and the last one that a head outside the state directory knows (0: there is no head)."""

    run: str
    events: int
    link: str
    since: int
    anchored: int


class Verdict(NamedTuple):
    """What was found; a journal without ``breaks`` is what was written. ``heads`` is the file of the heads, empty where
    none are kept. ``pruned`` counts the runs of which only the record is left that they were pruned."""

    runs: tuple[Standing, ...]
    breaks: tuple[Break, ...]
    heads: str
    pruned: int = 0


def known_chain(state: str) -> Chain:
    """The chain of a state directory for verification; nothing is made. It has no key where there is none. Raises
    StorageFailed for a key that is not safe."""
    path = key_path()
    try:
        return Chain(state, read_key(path, state))
    except OSError as error:
        return Chain(
            state, None, f"the key `{path}` is not here: {error.strerror}" if path else "the user has no home for a key"
        )


def verify(state: str, run: str | None = None, anchors: Sequence[Anchor] = ()) -> Verdict:
    """Compare a journal, or one run, with its chain, its heads and anchors. Whatever is damaged is a break.

    Raises NotFound where no journal is and none was known, StorageFailed for a key that is not safe.
    """
    chain = known_chain(state)
    try:
        heads, found = read_heads(chain)  # before the journal: what is written meanwhile is not cut
        wanted = None if run is None else frozenset({run})
        try:
            connection = open_database(state)
        except NotFound:
            if not heads:
                raise
            return Verdict((), (*found, *_gone(heads, wanted, frozenset())), chain.heads_path)
        except PlanrunnerError as error:
            return Verdict((), (*found, Break("", 0, "damaged", error.message)), chain.heads_path)
        else:
            standing, breaks = inspect(connection, chain, heads, wanted, anchors)
            pruned = _count(connection, wanted)
            connection.close()
            if chain.key is None and any(each.kind == "key" for each in breaks) and known_chain(state).key is not None:
                return verify(state, run, anchors)  # the first run of this user made the key meanwhile
            return Verdict(tuple(standing), (*found, *breaks), chain.heads_path if chain.anchored else "", pruned)
    finally:
        chain.close()


def read_heads(chain: Chain) -> tuple[dict[int, Head], list[Break]]:
    """All heads of a place by the number of the run, and what is wrong with them."""
    heads: dict[int, Head] = {}
    found: list[Break] = []
    try:
        chain.open_heads(write=False)
    except StorageFailed as error:
        found.append(Break("", 0, "head", error.message))
    for number in range(1, chain.count() + 1):
        try:
            head = chain.head(number)
        except StorageFailed as error:
            found.append(Break("", 0, "head", error.message))
            continue
        if head is not None:
            heads[number] = head
    return heads, found


def inspect(
    connection: Connection,
    chain: Chain,
    heads: dict[int, Head],
    wanted: frozenset[str] | None = None,
    anchors: Sequence[Anchor] = (),
) -> tuple[list[Standing], list[Break]]:
    """The runs of an open journal and its breaks; ``wanted`` are ids of runs, None for all and the journal itself."""
    try:
        if odd := _endless(connection):
            return [], [Break("", 0, "layout", f"the {odd} of the database is not as planrunner makes it")]
        found = _whole(connection, chain) if wanted is None else []
        if _version(connection) < CHAINED:
            older = "the journal is of an older layout and not chained yet: `planrunner exec` brings it up to date"
            return [], [*found, Break("", 0, "unchained", older)]
        found += _journal_breaks(connection, chain)
        rows = sealed_rows(connection)
        standing: list[Standing] = []
        for number, name in [(row.number, row.run) for row in rows if wanted is None or row.run in wanted]:
            told, breaks = _inspect_run(connection, chain, name, heads.get(number), anchors)
            standing += told
            found += breaks
        gone = pruned_rows(connection)
        found += record_breaks(chain, heads, [each for each in gone if _in(each.run, wanted)])
        found += _gone(heads, wanted, frozenset({row.number for row in rows} | {each.number for each in gone}))
        there = {row.run for row in rows}
        missed = [each for each in anchors if each.run not in there and _in(each.run, wanted)]
        found += _anchor_breaks({each.run: each for each in gone}, missed)
    except sqlite3.Error as error:
        return [], [Break("", 0, "damaged", f"the journal cannot be read: {error}")]
    return standing, found


def _inspect_run(
    connection: Connection, chain: Chain, run: str, head: Head | None, anchors: Sequence[Anchor]
) -> tuple[list[Standing], list[Break]]:
    known = [anchor for anchor in anchors if anchor.run == run]
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # row and events of one moment
    try:
        row = sealed_rows(connection, run)[0]
        walked, found = breaks_of(connection, chain, row, head, frozenset(anchor.seq for anchor in known))
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    for anchor in known:
        if walked.found is None and anchor.seq > walked.seq:
            found.append(cut(run, walked.seq, anchor.seq))
        elif walked.found is None and walked.marks[anchor.seq].hex() != anchor.link:
            found.append(Break(run, anchor.seq, "anchor", f"event {anchor.seq} is not the one that the anchor knows"))
    if any(anchor.seq == walked.seq for anchor in known) and {each.kind for each in found} == {"key"}:
        found = []  # whoever has no key has the anchor of its very last event
    since = row.since if isinstance(row.since, int) and is_ours(chain, row.seal) else 0
    return [Standing(row.name, walked.seq, walked.link.hex(), since, head[0] if head else 0)], found


def _gone(heads: dict[int, Head], wanted: frozenset[str] | None, there: frozenset[int]) -> list[Break]:
    """Runs that the heads know and the journal has not."""
    return [
        cut(name, 0, seq) for number, (seq, _, _, name) in heads.items() if number not in there and _in(name, wanted)
    ]


def _anchor_breaks(pruned: dict[str, Pruned], anchors: Sequence[Anchor]) -> list[Break]:
    """Anchors of runs that the journal has not, against the records of those that were pruned."""
    found = []
    for anchor in anchors:
        last = pruned[anchor.run].last_seq if anchor.run in pruned else 0
        if anchor.seq > last:
            found.append(cut(anchor.run, last, anchor.seq))
        elif anchor.seq == last and pruned[anchor.run].link.hex() != anchor.link:
            message = f"event {anchor.seq} is not the one that the anchor knows"
            found.append(Break(anchor.run, anchor.seq, "anchor", message))
    return found


def _count(connection: Connection, wanted: frozenset[str] | None) -> int:
    try:
        return sum(_in(each.run, wanted) for each in pruned_rows(connection))
    except sqlite3.Error:
        return 0  # a journal that cannot be read is told as damaged


def _in(run: str, wanted: frozenset[str] | None) -> bool:
    return wanted is None or run in wanted


def _journal_breaks(connection: Connection, chain: Chain) -> list[Break]:
    named = connection.execute("SELECT journal FROM audit").fetchone()
    if named is not None and chain.journal in (b"", named[0]):
        chain.journal = named[0] if isinstance(named[0], bytes) else b""
        return []
    return [Break("", 0, "journal", "the journal is not the one that was written here before")]


def _whole(connection: Connection, chain: Chain) -> list[Break]:
    """Damage to the file, tables that are not ours, and events that belong to no run."""
    told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    found = [Break("", 0, "damaged", " ".join(line.split())) for line in told if line != "ok"]
    ours = _layout(_version(connection))
    there = set(
        connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    )
    for kind, name, _ in sorted(there ^ ours, key=str):
        message = f"the {kind} `{name}` of the database is not as planrunner makes it"
        if (each := Break("", 0, "layout", message)) not in found:
            found.append(each)
    lost = connection.execute("SELECT DISTINCT id >> 32 FROM entries WHERE id >> 32 NOT IN (SELECT number FROM runs)")
    found += [
        Break("", 0, "inserted", f"there are events of a run {number}, which does not exist") for (number,) in lost
    ]
    return found


def _endless(connection: Connection) -> str:
    """What stands where a table should, and might answer for ever: a view or a virtual table; empty for none."""
    found = connection.execute(_ENDLESS).fetchone()
    return f"{found[0]} `{found[1]}`" if found else ""


def _version(connection: Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _layout(version: int) -> set[tuple[str, str, str]]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statement in (statement for step in MIGRATIONS[:version] for statement in step):
            connection.execute(statement)
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    finally:
        connection.close()


def forget_place(state: str) -> None:
    """Keep nothing of a state directory that was made for a trial and is gone."""
    chain = known_chain(state)
    if chain.heads_path and os.path.lexists(chain.heads_path):
        os.unlink(chain.heads_path)


def accepted_path(chain: Chain) -> str:
    """The file that tells what people accepted of a journal; empty where no heads are kept."""
    return f"{os.path.splitext(chain.heads_path)[0]}.accepted.jsonl" if chain.heads_path else ""
