"""Looks whether a journal is what was written, with what is known of it outside the state directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from planrunner.errors import NotFound, PlanrunnerError, StorageFailed
from planrunner.journal.breaks import breaks_of, cut, is_ours
from planrunner.journal.chain import Chain, Head, key_path, read_key
from planrunner.journal.database import CHAINED, MIGRATIONS, Connection, open_database, sqlite3
from planrunner.journal.pruning import Pruned, record_breaks, records
from planrunner.journal.walking import Break, sealed_rows

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
        gone = records(connection)
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
        return sum(_in(each.run, wanted) for each in records(connection))
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
