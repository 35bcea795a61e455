"""The proof of a journal as functions over rows: where runs, plans and events differ from what was written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import loads
from typing import Any, NamedTuple

from planrunner.journal.chain import Chain, Head, first_link, mac_of, next_link
from planrunner.records import Struct


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


EventRow = tuple[int, Any, Any, Any, Any, Any, Any]
"""seq, at, kind and body (bytes), version, mac (None: there is none), and whether all have the types they should:
``(seq, at, kind, version, body, mac, typed)``."""

_ROW = "the row of the run is not the one that was written"

PlanRow = tuple[Any, Any, Any, Any, Any, Any]
"""digest, text, name, notation, compiled, seal"""


class StoredRun(Struct):
    """A run as a store has it: its row, its events by seq, and the plans that it began with and was revised to."""

    row: Sealed
    events: Iterable[EventRow]
    plans: Sequence[PlanRow]


class Break(Struct):
    """Where a journal is not what was written. ``seq`` is the event (0: the run as a whole), ``run`` the id (empty: the
    journal as a whole); ``kind`` is one of those in ``docs/how-to/prove-what-happened.md``."""

    run: str
    seq: int
    kind: str
    message: str


class Walk(Struct):
    """How far a run chains: its last event and link, the last event as it is stored (kind, body), and the first break.
    ``marks`` holds the links of the events that were asked for."""

    seq: int
    link: bytes
    last: tuple[str, bytes, float]
    found: Break | None
    marks: dict[int, bytes]


class Anchor(Struct):
    """The proof of a run that is kept elsewhere: an event and its link in hexadecimal digits."""

    run: str
    seq: int
    link: str


class ChainedRun(Struct):
    """A run as far as it chains: its last event and link, the first event with a mac of its own (those before are
    covered by it together), and the last one that a head outside the state directory knows (0: there is no head)."""

    run: str
    events: int
    link: str
    since: int
    anchored: int


class Verdict(Struct):
    """What was found; a journal without ``breaks`` is what was written. ``heads`` is the file of the heads, empty where
    none are kept. ``pruned`` counts the runs of which only the record is left that they were pruned."""

    runs: tuple[ChainedRun, ...]
    breaks: tuple[Break, ...]
    heads: str
    pruned: int = 0


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


def verify(rows: StoredRun, key: Chain, head: Head | None = None) -> list[Break]:
    """Every place where a run is not what was written with ``key``; ``head`` is what is known of it outside its store.
    Raises what ``rows.events`` raises."""
    return walk(rows, key, head)[1]


def walk(
    rows: StoredRun, chain: Chain, head: Head | None, wanted: frozenset[int] = frozenset()
) -> tuple[Walk, list[Break]]:
    """How far a run chains, and its breaks; ``wanted`` are further events whose links are asked for."""
    row = rows.row
    breaks = _row_breaks(chain, row)
    known = head[0] if head is not None else 0
    try:
        walked = _follow(rows, chain.key if is_ours(chain, row.seal) else None, wanted | {known})
    except (TypeError, ValueError):  # the row holds what no row can
        return Walk(0, b"", ("", b"", 0.0), None, {}), breaks or [Break(row.name, 0, "row", _ROW)]
    if walked.found is not None:
        breaks.append(walked.found)
    if head is not None:
        breaks += _head_breaks(row, walked, head)
    if not breaks:  # else they do not fit because of that
        breaks += _ending_breaks(row, walked)
    return walked, [*breaks, *_plan_breaks(chain, rows)]


def is_ours(chain: Chain, seal: object) -> bool:
    """Whether a seal was made with the key that is here."""
    return chain.key is not None and isinstance(seal, bytes) and seal[: len(chain.key_id)] == chain.key_id


def cut(run: str, last: int, known: int) -> Break:
    """The break of a run that ends before an event that is known of it."""
    gone = f"event {known} is" if known == last + 1 else f"events {last + 1} to {known} are"
    return Break(run, last + 1, "cut", f"{gone} missing at the end: it was cut, or an old copy put back")


def stored_form(seq: int, at: float, kind: bytes, version: int, body: bytes) -> bytes:
    """What the link of an event covers beside the link before."""
    return b"%d %b %d %b %b" % (seq, repr(at).encode(), version, kind, body)


def _follow(rows: StoredRun, key: bytes | None, wanted: frozenset[int]) -> Walk:
    """Follow the links of a run up to the first break; with a ``key`` every mac is compared, without one (None) only
    numbers and types. Raises TypeError and ValueError for what no row of a run can hold."""
    row = rows.row
    link, seq, last = (
        first_link(row.name, str(row.plan_id), str(row.plan_digest), float(row.created)),
        0,
        ("", b"", 0.0),
    )
    marks: dict[int, bytes] = {}
    since = row.since if isinstance(row.since, int) else 1

    def stop(at: int, kind: str, message: str) -> Walk:
        return Walk(seq, link, last, Break(row.name, at, kind, message), marks)

    for number, at, kind, version, body, mac, typed in rows.events:
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


def _plan_breaks(chain: Chain, rows: StoredRun) -> list[Break]:
    """A run acts on the plans that are stored for it."""
    name, breaks = rows.row.name, list[Break]()
    for *plan, seal in rows.plans:
        if is_ours(chain, seal) and seal != chain.seal(*plan):
            breaks.append(Break(name, 0, "plan", "the plan that is stored for the run is not the one that was written"))
        elif chain.key is not None and is_ours(chain, rows.row.seal) and not is_ours(chain, seal):
            breaks.append(Break(name, 0, "plan", "the plan that is stored for the run bears no seal of its key"))
    return breaks


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


def record_breaks(chain: Chain, heads: dict[int, Head], records: Iterable[Pruned]) -> list[Break]:
    """The records that are not what was written, and those whose head knows more of the run."""
    breaks: list[Break] = []
    for record in records:
        run, head = str(record.run), heads.get(record.number)
        if chain.key is None:
            breaks.append(Break(run, 0, "key", f"nothing can be compared: {chain.unchained}"))
        elif record.seal is None:
            why = "the record that the run was pruned bears no seal: made without a key"
            breaks.append(Break(run, 0, "unchained", why))
        elif not is_ours(chain, record.seal):
            breaks.append(Break(run, 0, "key", "the run was pruned under another key, which is not here"))
        elif record.seal != chain.seal(*record[:-1]):
            why = "the record that the run was pruned is not the one that was written"
            breaks.append(Break(run, 0, "pruned", why))
        elif head is None:
            continue
        elif not run.startswith(head[3]):
            breaks.append(Break(run, 0, "head", f"in its place the head knows run `{head[3]}`"))
        elif head[0] > record.last_seq:
            breaks.append(cut(run, record.last_seq, head[0]))
        elif head[0] == record.last_seq and head[2] != record.link:
            breaks.append(Break(run, head[0], "head", f"event {head[0]} is not the one that its head knows"))
    return breaks
