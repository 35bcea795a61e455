"""What the store of artifacts holds against what refers to it: checked, and collected where nothing does.

A content is referred to where its digest stands, in hexadecimal digits, anywhere in the journal, in the caches of the
state directory, or in a JSON content that is itself referred to, as the manifests of checkpoints are. Of an artifact
whose time is over the results of tasks may still speak: that alone keeps nothing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from planrunner.app.artifacts import Version, default_retention, versions
from planrunner.errors import NotFound
from planrunner.journal.locks import held_runs, lock_path
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.journal.workspace import find_state
from planrunner.knowledge.artifacts import ArtifactStore, Collected, collect

GRACE = 86_400.0
"""Seconds for which a content that nothing refers to is kept all the same."""

COARSE = 1.0
"""Seconds by which the times of files may lag behind the clock."""

_RESULTS = frozenset({"attempt_ended", "frame_opened", "run_ended", "task_settled"})
"""Kinds of events that hold what tasks gave."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LARGEST = 256 << 20
"""Bytes of a JSON content that is looked through."""
_CACHED_CHUNK = 1 << 20


class Checked(NamedTuple):
    """The state of a store: how many contents are whole, which are damaged, and which versions have lost theirs before
    their time."""

    whole: int
    damaged: tuple[str, ...]
    lost: tuple[Version, ...]
    over: int


def verified(state: str | None) -> Checked:
    """Compare every content with its digest, and every version with the store. Raises NotFound."""
    state_dir = find_state(None, state)
    journal = open_journal(state_dir, readonly=True)
    try:
        every = versions(journal, default_retention(state_dir))
    finally:
        journal.close()
    store = ArtifactStore(state_dir)
    there = list(store)
    damaged = tuple(sha256 for sha256 in there if not store.is_whole(sha256))
    known = set(there)
    missing = [version for version in every if version.sha256 not in known]
    lost = tuple(version for version in missing if not version.over)
    return Checked(len(there) - len(damaged), damaged, lost, len(missing) - len(lost))


def collected(state: str | None, older: float = GRACE, dry: bool = False) -> Collected:
    """Remove what nothing refers to and nobody touched for ``older`` seconds. Raises NotFound, StorageFailed."""
    state_dir = find_state(None, state)
    before = _before(state_dir, older)  # first: whatever a run keeps from now on is younger
    store = ArtifactStore(state_dir)
    if not os.path.isdir(os.path.join(state_dir, "artifacts")):
        raise NotFound(f"there are no artifacts in `{state_dir}`", "a task keeps a file with `artifacts: [PATH]`")
    journal = open_journal(state_dir, readonly=True)
    try:
        live = _referred(journal, default_retention(state_dir))
    finally:
        journal.close()
    live.update(_cached(os.path.join(state_dir, "cache")))
    _follow(store, live)
    return collect(store, live, before, dry)


def _before(state_dir: str, older: float) -> float:
    """The moment before which a content must have been touched last: what a living run keeps is its own until it has
    told of it, however long that takes."""
    moment = time.time() - max(older, 0.0) - COARSE
    for run, _ in held_runs(state_dir):
        try:
            moment = min(moment, os.stat(lock_path(state_dir, run)).st_mtime)
        except FileNotFoundError:
            continue  # it has ended since, and what it kept stands in the journal
    return moment


def _referred(journal: Journal, default: str) -> set[str]:
    """The digests that the journal names, without the artifacts whose time is over."""
    every = versions(journal, default)
    live = {version.sha256 for version in every if not version.over}
    over = {version.sha256 for version in every if version.over} - live
    for kind, text in journal.texts():
        found = set(_digests(text.encode("utf-8", "surrogatepass")))
        live |= found - over if kind in _RESULTS else found
    return live


def _digests(data: bytes) -> Iterator[str]:
    return (found.decode("ascii") for found in _DIGEST.findall(data))


def _cached(folder: str) -> Iterator[str]:
    """The digests in the files of the caches: what a later run takes from there is still in the store."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    rest = b""
                    while data := file.read(_CACHED_CHUNK):
                        yield from _digests(rest + data)
                        rest = data[-128:]
            except OSError:
                continue


def _follow(store: ArtifactStore, live: set[str]) -> None:
    """Add what the JSON contents among the live ones refer to, and what those do."""
    waiting = list(live)
    while waiting:
        for sha256 in _inside(store, waiting.pop()):
            if sha256 not in live:
                live.add(sha256)
                waiting.append(sha256)


def _inside(store: ArtifactStore, sha256: str) -> list[str]:
    try:
        with store.open(sha256) as file:
            if file.peek(1)[:1] not in (b"{", b"[") or os.fstat(file.fileno()).st_size > _LARGEST:
                return []
            return list(_digests(file.read()))
    except (NotFound, OSError):
        return []
