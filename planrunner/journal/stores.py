"""The journal of a project by its place: a folder, or an address whose scheme names the store.

The variable PLANRUNNER_JOURNAL holds the address of a journal that a team shares. Then a state directory has what stays
on this machine alone: artifacts, logs, the queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from planrunner.errors import UsageError
from planrunner.escapes import without_password
from planrunner.journal import inbox, sqlite
from planrunner.journal.database import FILE, check_database
from planrunner.later import Later

if TYPE_CHECKING:
    from urllib.parse import unquote, urlsplit

    from planrunner.extras import installing
    from planrunner.journal.ports import Journal
    from planrunner.journal.postgresql import TeamJournal

    Opener = Callable[[str, bool], Journal]
else:
    unquote = Later("urllib.parse:unquote")
    urlsplit = Later("urllib.parse:urlsplit")
    installing = Later("planrunner.extras:installing")
    TeamJournal = Later("planrunner.journal.postgresql:TeamJournal")

VARIABLE = "PLANRUNNER_JOURNAL"

LOCAL: type = sqlite.Journal
"""The class of the journals in folders: what counts or cuts off their writes wraps its methods."""


def _in_folder(address: str, readonly: bool) -> Journal:
    return sqlite.open_journal(unquote(urlsplit(address).path), readonly=readonly)


def _of_team(address: str, readonly: bool) -> TeamJournal:
    try:
        journal = TeamJournal(address, readonly)
    except ImportError as error:
        told = f"the journal is kept in PostgreSQL, and its driver is not installed ({error})"
        raise UsageError(told, installing("sql")) from None
    return journal


STORES: dict[str, Opener] = {"file": _in_folder, "postgresql": _of_team, "postgres": _of_team}
"""Scheme of an address → what opens the journal there, for reading only where the second argument is true."""


def open_journal(place: str, *, readonly: bool = False) -> Journal:
    """The journal of a state directory, or at an address such as ``file:///srv/state``; it is made where it is missing
    (unless ``readonly``).

    Raises UsageError for an unknown scheme, StorageFailed for a place or a store that cannot be used, NotFound for a
    read-only opening of nothing, RecordMismatch for writing in what came from elsewhere.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        if not (address := shared_address()):
            return sqlite.open_journal(place, readonly=readonly)
        scheme = address.partition("://")[0]
        if scheme not in STORES:
            told = f"{VARIABLE} holds {without_password(address)}, which is not an address of a journal"
            raise UsageError(told, "write it as postgresql://user@host/database")
        if not readonly:
            sqlite.open_journal(place).close()  # an empty one says whose the state directory is
        place = address
    if scheme not in STORES:
        known = ", ".join(f"`{name}://`" for name in sorted(STORES))
        raise UsageError(f"`{place}`: `{scheme}` is not a store of journals", f"use a folder, or {known}")
    return STORES[scheme](place, readonly)


def shared_address() -> str:
    """The address of the journal that a team shares; empty where each state directory has its own."""
    return os.environ.get(VARIABLE, "")


def shared_name() -> str:
    """The same as it may be shown."""
    return without_password(shared_address())


def require_local(what: str) -> None:
    """Raises UsageError for what is said of a journal in a state directory alone, where the journal is shared."""
    if shared_address():
        raise UsageError(
            f"{what}: the journal is shared at {shared_name()}, and its entries are not chained",
            f"unset {VARIABLE} for the journal of the state directory",
        )


def journal_file(state: str) -> str:
    """The file of the journal in a state directory, or the name of the one that is shared, for messages; empty where
    there is none."""
    if shared_address():
        return shared_name()
    path = os.path.join(state, FILE)
    return path if os.path.lexists(path) else ""


def identity(state: str) -> tuple[int, int] | None:
    """What the journal of a state directory is known by, so that another in its place is noticed; None where there is
    none."""
    if shared_address():
        return 0, hash(shared_address())
    try:
        about = os.stat(os.path.join(state, FILE))
    except OSError:
        return None
    return about.st_dev, about.st_ino


def read_note(state: str, name: str) -> str:
    """The text of a note of an attempt; empty where there is none. Raises StorageFailed."""
    if not (address := shared_address()):
        return inbox.read_note(state, name)
    journal = _of_team(address, False)
    try:
        return journal.note(name)
    finally:
        journal.close()


def write_note(state: str, run: str, name: str, text: str) -> None:
    """Keep a note of a run in place of the one of that name; empty removes it. Durable on return; any thread may call
    it. Raises StorageFailed."""
    if not (address := shared_address()):
        inbox.write_note(state, run, name, text)
        return
    journal = _of_team(address, False)
    try:
        journal.keep_note(run, name, text)
    finally:
        journal.close()


def check_journal(state: str, seconds: float) -> bool:
    """Look through the journal of a state directory for damage; False where that took longer than ``seconds`` and was
    given up. Raises NotFound, StorageFailed for what is damaged; of a shared one that it cannot be reached."""
    if address := shared_address():
        _of_team(address, True).close()
        return True
    return check_database(state, seconds)
