"""Whether a run is what was written: its row, its plan, its events, and the head that is known of it."""

from __future__ import annotations

from json import loads
from typing import TYPE_CHECKING

from planrunner.journal.chain import Chain, Head
from planrunner.journal.walking import Break, Sealed, Walk, plans_of, walk

if TYPE_CHECKING:
    from planrunner.journal.database import Connection


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
