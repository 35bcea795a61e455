"""Files as they were at a checkpoint: what tasks had kept as artifacts, put back into the working directory.

What is to be written is found first and shown; what is written over is kept as an artifact.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import AttemptEnded, Entry, TaskSettled
from planrunner.plan.model import Plan
from planrunner.record import NamedTuple

Json = Any


class Restored(NamedTuple):
    """One artifact of a checkpoint: where its file belongs (``path`` as people see it, ``target`` in full) and its
    digest. ``how`` is ``missing``, ``differs`` (both are to be written), ``same``, or why it is left out."""

    path: str
    target: str
    sha256: str
    how: str

    @property
    def to_write(self) -> bool:
        return self.how in ("missing", "differs")


def restorable(plan: Plan, entries: Sequence[Entry], directory: str, state_dir: str) -> list[Restored]:
    """What the artifacts in a record come to in the working directory of the run, in the order of their paths."""
    store = ArtifactStore(state_dir)
    latest = {os.path.join(folder, str(record["path"])): record for folder, record in _kept(plan, entries)}
    return [_look(path, record, directory, store) for path, record in sorted(latest.items())]


def _kept(plan: Plan, entries: Sequence[Entry]) -> Iterator[tuple[str, dict[str, Json]]]:
    """The artifacts of completed tasks with the folder that their paths start from, in the order of completion."""
    folders = {task.id: task.cwd for task in plan.tasks}
    ended: dict[str, AttemptEnded] = {}
    for _, _, event in entries:
        if isinstance(event, AttemptEnded):
            ended[event.task] = event
        elif isinstance(event, TaskSettled) and event.status == "completed" and event.task in ended:
            for record in ended[event.task].outcome.artifacts:
                if "path" in record and "sha256" in record:
                    yield folders.get(event.task, ""), record


def _look(path: str, record: dict[str, Json], directory: str, store: ArtifactStore) -> Restored:
    target = os.path.normpath(os.path.join(directory, path))
    sha256 = str(record["sha256"])
    return Restored(path, target, sha256, _how(path, target, record, directory, store))


def _how(path: str, target: str, record: dict[str, Json], directory: str, store: ArtifactStore) -> str:
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
    if not os.path.exists(target):
        return "missing"
    with open(target, "rb") as file:
        return "same" if hashlib.file_digest(file, "sha256").hexdigest() == sha256 else "differs"


def restore(files: Sequence[Restored], state_dir: str) -> list[tuple[Restored, str]]:
    """Write the files that are missing or differ, each at once or not at all; gives each with the digest under which
    the content before is kept (empty where there was none). Raises OSError, StorageFailed."""
    store = ArtifactStore(state_dir)
    done = []
    for file in files:
        if file.to_write:
            before = str(store.keep(file.target)["sha256"]) if os.path.exists(file.target) else ""
            _write(file.target, store.read(file.sha256))
            done.append((file, before))
    return done


def _write(target: str, data: bytes) -> None:
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    mode = os.stat(target).st_mode & 0o7777 if os.path.exists(target) else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(prefix=".planrunner-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
