"""Plan files that text from outside is written over while a run goes on: whatever a model chose, a branch brought or a
server sent runs as a plan only after a person has trusted it (``safety/trust.py``).

A call whose text may be from outside is told by ``source``. Files that it changes are found by looking at all files
that could be plans before it and after it, since nothing else holds for every capability and for what a shell writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from planrunner.fileio import read_regular
from planrunner.machine.state import State
from planrunner.plan.tasks import tools_of
from planrunner.records import Struct
from planrunner.safety.trust import UNWATCHED, digest, mark, note, notes, take_back
from planrunner.source import MAX_TEXT

_BRINGS = frozenset({"branch.apply", "git.merge", "git.switch", "http.download", "mcp.call"})
"""Capabilities that write what was not reviewed, whatever they are given."""
_HARMLESS = ("pure", "read")
_ENDINGS = (".yaml", ".yml", ".plan", ".json")
_SKIPPED = UNWATCHED | {".planrunner"}
_LARGEST = 1 << 20
"""Bytes of a file whose content is compared; of a larger one it counts that it was written."""
_MOST = 4_096

Stamp = tuple[int, int, int, int]


class Seen(Struct):
    """A file as it was: what changes when it is written, and its SHA-256, empty for a large one."""

    stamp: Stamp
    sha256: str


_digests: dict[tuple[str, Stamp], str] = {}


def source(state: State, number: int, carries: Callable[[State, int], bool]) -> str:
    """Why what the call of a task writes is text from outside, in words; empty where nothing tells that it is.
    ``carries`` tells whether text from outside goes into it, of a run that takes some."""
    task = state.specs[number]
    if state.trait(task).effect in _HARMLESS:
        return ""
    chosen = "a model chose it, or may have" if _is_chosen(state, number) else ""
    chosen = chosen or (f"{task.uses} brought it" if task.uses in _BRINGS else "")
    if not chosen and state.foreign and carries(state, number):
        chosen = "text from outside is in it"
    return chosen and f"`{task.id}` of run {state.run_id} wrote it: {chosen}"


def _is_chosen(state: State, number: int) -> bool:
    """Whether a model asks for the call, or for the plan that it is in."""
    while number >= 0:
        frame = state.tasks[number].frame
        if frame.kind == "items" and tools_of(state.specs[frame.owner]):
            return True
        number = frame.owner
    return False


def look(folders: Iterable[str]) -> dict[str, Seen]:
    """The files in folders, at whatever depth, that could be plans by their names."""
    return {path: Seen(stamp, _digest(path, stamp)) for path, stamp in _files(folders)}


def note_before(folders: Iterable[str], before: Mapping[str, Seen], why: str) -> str:
    """Note what is about to be written, for whatever loads a plan meanwhile; the note. What processes that were killed
    have noted is marked first. Raises StorageFailed."""
    for place, each in notes():
        if not os.path.exists(f"/proc/{each.pid}"):
            mark_changed(
                each.folders, {path: Seen((0, 0, 0, 0), known) for path, known in each.before.items()}, each.why
            )
            take_back(place)
    return note(
        [*dict.fromkeys(map(os.path.realpath, folders))], {path: seen.sha256 for path, seen in before.items()}, why
    )


def mark_changed(folders: Iterable[str], before: Mapping[str, Seen], why: str) -> None:
    """Mark the files that are new or have changed since ``look``. Raises StorageFailed."""
    for path, stamp in _files(folders):
        known = before.get(path)
        if known is None or known.stamp != stamp:
            now = _digest(path, stamp)
            if known is None or not now or known.sha256 != now:
                mark(path, _text(path), why, known.sha256 if known is not None else "")


def _files(folders: Iterable[str]) -> Iterator[tuple[str, Stamp]]:
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for here, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name not in _SKIPPED]
            for name in names:
                if name.lower().endswith(_ENDINGS):
                    path = os.path.join(here, name)
                    try:
                        about = os.stat(path)
                    except OSError:
                        continue
                    yield path, (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _digest(path: str, stamp: Stamp) -> str:
    if stamp[1] > _LARGEST:
        return ""
    known = _digests.get((path, stamp))
    if known is None:
        if len(_digests) >= _MOST:
            _digests.clear()
        known = _digests[path, stamp] = digest(_text(path))
    return known


def _text(path: str) -> bytes:
    try:
        return read_regular(path, MAX_TEXT + 1)
    except OSError:
        return b""
