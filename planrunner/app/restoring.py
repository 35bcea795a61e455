"""Files as they were at a checkpoint: what tasks had kept as artifacts, and whether the directory still has them.

Nothing is written here: ``rewinding`` does that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import AttemptEnded, Entry, TaskSettled
from planrunner.plan.model import Plan

Json = Any


class Restored(NamedTuple):
    """One artifact of a checkpoint: where its file belongs (``path`` as people see it, ``target`` in full) and its
    digest. ``how`` is ``missing``, ``differs`` (both are to be written), ``same``, or why it is left out. ``seq`` is
    the entry that tells of it."""

    path: str
    target: str
    sha256: str
    how: str
    seq: int = 0


def restorable(plan: Plan, entries: Sequence[Entry], directory: str, state_dir: str) -> list[Restored]:
    """What the artifacts in a record come to in the working directory of the run, in the order of their paths."""
    store = ArtifactStore(state_dir)
    files = _kept_files(plan, entries)
    latest = {os.path.join(folder, str(record["path"])): (seq, record) for seq, folder, record in files}
    return [_look(path, *latest[path], directory, store) for path in sorted(latest)]


def _kept_files(plan: Plan, entries: Sequence[Entry]) -> Iterator[tuple[int, str, dict[str, Json]]]:
    """The artifacts of completed tasks with their entry and the folder that their paths start from, in the order of
    completion."""
    folders = {task.id: task.cwd for task in plan.tasks}
    ended: dict[str, tuple[int, AttemptEnded]] = {}
    for seq, _, event in entries:
        if isinstance(event, AttemptEnded):
            ended[event.task] = seq, event
        elif isinstance(event, TaskSettled) and event.status == "completed" and event.task in ended:
            at, last = ended[event.task]
            for record in last.outcome.artifacts:
                if "path" in record and "sha256" in record:
                    yield at, folders.get(event.task, ""), record


def _look(path: str, seq: int, record: dict[str, Json], directory: str, store: ArtifactStore) -> Restored:
    target = os.path.normpath(os.path.join(directory, path))
    sha256 = str(record["sha256"])
    return Restored(path, target, sha256, _how_kept(path, target, record, directory, store), seq)


def _how_kept(path: str, target: str, record: dict[str, Json], directory: str, store: ArtifactStore) -> str:
    sha256 = str(record["sha256"])
    inside = os.path.realpath(os.path.dirname(target))
    root = os.path.realpath(directory)
    if "{{" in path or (inside != root and not inside.startswith(root + os.sep)):
        return "it lies outside the working directory"
    if str(record.get("type", "")) == "directory" or os.path.isdir(target):
        return "it is a directory"
    if os.path.islink(target):
        return "a symbolic link is in its place"
    if not store.is_whole(sha256):
        return "its content is not in the store any more"
    try:
        with open(target, "rb") as file:
            return "same" if hashlib.file_digest(file, "sha256").hexdigest() == sha256 else "differs"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "differs"  # whoever writes over it has to read it first, and says that it cannot be
