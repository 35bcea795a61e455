"""Takes runs that have ended out of the journal.

Of each a record stays under the seal of the key: which run it was, how many events it had and the link of the last. By
it verification tells a run that was pruned from one that was cut.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.journal.breaks import cut, is_ours
from planrunner.journal.chain import Chain, Head
from planrunner.journal.database import Connection
from planrunner.journal.walking import Break

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


def records(connection: Connection) -> list[Pruned]:
    """The records of all pruned runs. Raises the errors of SQLite."""
    if int(connection.execute("PRAGMA user_version").fetchone()[0]) < PRUNED:
        return []  # an older planrunner wrote the journal, and nobody has written since
    return [Pruned(*row) for row in connection.execute(_RECORDS)]


def seal(connection: Connection, chain: Chain, runs: Container[str]) -> set[int]:
    """Seal the records of ``runs`` as they stand; the numbers of the other pruned runs. Raises the errors of SQLite."""
    found = records(connection)
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
