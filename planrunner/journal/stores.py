"""The journal of a project by its place: a folder, or an address whose scheme names the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from planrunner.errors import UsageError
from planrunner.journal import sqlite
from planrunner.journal.database import FILE, check_database
from planrunner.journal.ports import Journal

Opener = Callable[[str, bool], Journal]

LOCAL: type = sqlite.Journal
"""The class of the journals in folders: what counts or cuts off their writes wraps its methods."""


def _in_folder(address: str, readonly: bool) -> Journal:
    return sqlite.open_journal(unquote(urlsplit(address).path), readonly=readonly)


STORES: dict[str, Opener] = {"file": _in_folder}
"""Scheme of an address → what opens the journal there, for reading only where the second argument is true."""


def open_journal(place: str, *, readonly: bool = False) -> Journal:
    """The journal of a state directory, or at an address such as ``file:///srv/state``; it is made where it is missing
    (unless ``readonly``).

    Raises UsageError for an unknown scheme, StorageFailed for a place or a store that cannot be used, NotFound for a
    read-only opening of nothing, RecordMismatch for writing in what came from elsewhere.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return sqlite.open_journal(place, readonly=readonly)
    if scheme not in STORES:
        known = ", ".join(f"`{name}://`" for name in sorted(STORES))
        raise UsageError(f"`{place}`: `{scheme}` is not a store of journals", f"use a folder, or {known}")
    return STORES[scheme](place, readonly)


def journal_file(state: str) -> str:
    """The file of the journal in a state directory, for messages; empty where there is none."""
    path = os.path.join(state, FILE)
    return path if os.path.lexists(path) else ""


def check_journal(state: str, seconds: float) -> bool:
    """Look through the journal of a state directory for damage; False where that took longer than ``seconds`` and was
    given up. Raises NotFound, StorageFailed for what is damaged."""
    return check_database(state, seconds)
