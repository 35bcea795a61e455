"""Goes along the chain of a run and finds where it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.journal.chain import first_link, mac_of, next_link

if TYPE_CHECKING:
    from planrunner.journal.database import Connection


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
