"""Takes what stands in a journal as it is into the chain: journals of older layouts, runs of another key, and what a
person accepts."""

from __future__ import annotations

from planrunner.journal.chain import Chain, first_link, mac_of, next_link
from planrunner.journal.database import Connection
from planrunner.journal.requests import cover_waiting
from planrunner.journal.walking import BITS, Sealed, entries_of, plans_of, stored_form

_PLANS = "SELECT digest, text, name, notation, compiled FROM plans"


def begin(connection: Connection, chain: Chain) -> None:
    """Inside the migration that brings the chain: name the journal. The name is the one that the heads of this place
    know, so that runs which they know and the journal has not are told."""
    chain.journal = chain.journal or chain.new_name()
    connection.execute("INSERT INTO audit VALUES (?)", (chain.journal,))


def adopt(connection: Connection, chain: Chain, row: Sealed) -> tuple[int, bytes]:
    """Inside a transaction: cover a run as it stands, all its events together under the mac of the last one, and the
    requests that wait for it. Gives that event and its link. Raises the errors of SQLite, ValueError and TypeError for
    what cannot be covered."""
    link, seq = first_link(row.run, row.plan_id, row.plan_digest, row.created), 0
    for number, at, kind, version, body, _, _ in entries_of(connection, row.number):
        if number != seq + 1:
            raise ValueError(f"event {seq + 1} of run `{row.run}` is missing")
        link, seq = next_link(link, stored_form(number, at, kind, version, body)), number
    mac = None if chain.key is None else mac_of(link, chain.key)
    connection.execute("UPDATE entries SET mac = ? WHERE id = ?", (mac, row.number << BITS | seq))
    now = row._replace(since=max(seq, 1))
    connection.execute(
        "UPDATE runs SET since = ?, seal = ? WHERE number = ?", (now.since, chain.seal(*now[:-1]), row.number)
    )
    for digest in plans_of(connection, row):
        _seal_plans(connection.execute(f"{_PLANS} WHERE digest = ?", (digest,)).fetchall(), connection, chain)
    cover_waiting(connection, chain, row.run)
    return seq, link


def _seal_plans(plans: list[tuple[object, ...]], connection: Connection, chain: Chain) -> None:
    for plan in plans:
        connection.execute("UPDATE plans SET seal = ? WHERE digest = ?", (chain.seal(*plan), plan[0]))
