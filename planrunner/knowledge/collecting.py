"""Removing contents that nothing refers to, beside processes that keep new ones.

Whoever keeps a content, or refers to one anew, makes its age begin anew under a lock that all of them share; whoever
collects looks at the age once more while it is alone. A removal is one ``unlink``: killed at any point, the collector
leaves each content whole or gone.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from itertools import islice
from typing import NamedTuple

from planrunner.errors import StorageFailed
from planrunner.knowledge.artifacts import ArtifactStore

_BATCH = 64
"""Contents that are looked at while everybody else waits."""


class Collected(NamedTuple):
    """Digests that were removed (or would be), and their bytes; how many others are kept, and their bytes; how many of
    those nothing refers to, but are too young."""

    removed: tuple[str, ...]
    freed: int
    kept: int
    held: int
    young: int


def collect(store: ArtifactStore, live: Container[str], before: float, dry: bool = False) -> Collected:
    """Remove every content that is not ``live`` and that nobody has touched since ``before`` (seconds since 1970).
    Raises StorageFailed."""
    removed: list[str] = []
    freed = kept = held = young = 0
    rest = iter(store)
    while batch := list(islice(rest, _BATCH)):
        for sha256, size, gone in _looked_at(store, batch, live, before, dry):
            if gone:
                removed.append(sha256)
                freed += size
                continue
            kept += 1
            held += size
            young += sha256 not in live
    if not dry:
        store.sweep(before)
    return Collected(tuple(removed), freed, kept, held, young)


def _looked_at(
    store: ArtifactStore, batch: list[str], live: Container[str], before: float, dry: bool
) -> Iterator[tuple[str, int, bool]]:
    """Each content with its size, and whether it went."""
    try:
        lock = store.guard(alone=not dry)
        try:
            for sha256 in batch:
                path = store.path_of(sha256)
                try:
                    found = os.lstat(path)
                except FileNotFoundError:
                    continue
                gone = sha256 not in live and found.st_mtime < before
                if gone and not dry:
                    os.unlink(path)
                yield sha256, found.st_size, gone
        finally:
            os.close(lock)
    except OSError as error:
        raise StorageFailed(f"artifacts cannot be removed: {error.strerror}: `{error.filename}`") from error
