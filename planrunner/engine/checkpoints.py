"""The files of a checkpoint: looked at, kept as artifacts and listed in a manifest. Runs in a thread of its own.

A file that is as it was when it was read last is not read again: its size, its times, its place on the disk tell, and
the index in the state directory remembers. A file that changed within two seconds before it was read is never
remembered, since it may change again without its times showing it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

from planrunner.engine import repository
from planrunner.engine.backups import MOST
from planrunner.engine.patterns import Refused
from planrunner.engine.trees import listing
from planrunner.errors import NotFound, StorageFailed
from planrunner.journal.workspace import private
from planrunner.knowledge import directories
from planrunner.knowledge.artifacts import ArtifactRefused, ArtifactStore
from planrunner.knowledge.directories import Manifest, Piece
from planrunner.machine.events import CheckpointTaken

if TYPE_CHECKING:
    from planrunner.engine.effects import TakeCheckpoint
    from planrunner.redaction import Redactor

Json = Any

LARGEST = 2 << 30
"""Bytes of all files of one checkpoint together."""

SETTLED = 2_000_000_000
"""Nanoseconds since its last change after which the times of a file tell whether it changes again."""

INDEX = "files.index"


def taken(state_dir: str, effect: TakeCheckpoint, redactor: Redactor | None = None) -> CheckpointTaken | StorageFailed:
    """Keep what the effect names and tell what was kept; a file with a secret that ``redactor`` knows is left out. A
    store that cannot be written is returned, not raised."""
    try:
        return _taken(state_dir, effect, redactor)
    except StorageFailed as failed:
        return failed


def _taken(state_dir: str, effect: TakeCheckpoint, redactor: Redactor | None) -> CheckpointTaken:
    asked, root = effect.asked, os.path.realpath(effect.directory)
    store = ArtifactStore(state_dir, redactor, exact=True)
    answer = CheckpointTaken(*asked)
    if repository.in_repository(root):
        answer = answer._replace(git=repository.git_position(root))
    try:
        found, unread, _ = listing(root, state_dir, asked.patterns, MOST)
        size = sum(one.st_size for one in found.values() if stat.S_ISREG(one.st_mode))
        if redactor is not None and (hidden := [path for path in (*found, *unread) if redactor.text(path) != path]):
            shown = redactor.text(sorted(hidden)[0])
            raise Refused(f"the name of {shown} holds a secret: rename it, or name other `paths`")
        if size > LARGEST:
            raise Refused(f"its {size:,} bytes are more than {LARGEST:,}: name the files to keep with `paths`")
    except Refused as refused:
        return answer._replace(problem=str(refused))
    reader = _Reader(state_dir, root, store, redactor)
    pieces = {path: reader.piece(path, one) for path, one in found.items()}
    pieces.update(dict.fromkeys(unread, Piece("unread")))
    store.settle(reader.later)
    problems = unread | reader.problems
    reader.remember(whole=not asked.patterns)
    manifest = Manifest(asked.patterns, {path: piece for path, piece in pieces.items() if piece is not _GONE})
    answer = answer._replace(problem=_told(problems), files=directories.keep(store, manifest))
    return _counted(store, answer, manifest)


def _counted(store: ArtifactStore, answer: CheckpointTaken, manifest: Manifest) -> CheckpointTaken:
    size = sum(piece.size for piece in manifest.pieces.values())
    answer = answer._replace(held=len(manifest.pieces), size=size)
    if not answer.since:
        return answer
    try:
        before = directories.read(store, answer.since)
    except (NotFound, ValueError):
        return answer._replace(since="")
    added, changed, removed = map(len, directories.changes(before, manifest))
    return answer._replace(added=added, changed=changed, removed=removed)


def _told(problems: dict[str, str]) -> str:
    shown = [f"{path} cannot be read: {why}" for path, why in sorted(problems.items())[:3]]
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    return ("; ".join(shown) + more).encode("utf-8", "backslashreplace").decode()


_GONE = Piece("gone")


class _Reader:
    """Makes pieces of paths, and remembers those files whose times can be relied on."""

    def __init__(self, state_dir: str, root: str, store: ArtifactStore, redactor: Redactor | None) -> None:
        self.problems: dict[str, str] = {}
        self.later: set[str] = set()
        self._root = root
        self._store = store
        self._redactor = redactor
        self._index = os.path.join(state_dir, INDEX)
        self._known = _remembered(self._index, root)
        self._seen: dict[str, list[Json]] = {}

    def piece(self, path: str, found: os.stat_result) -> Piece:
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            return Piece("folder", mode)
        whole = os.path.join(self._root, path)
        try:
            if stat.S_ISLNK(found.st_mode):
                return self._link(path, os.readlink(whole))
            sha256, size = self._content(path, whole, found)
        except FileNotFoundError:
            return _GONE
        except OSError as error:
            if not os.path.lexists(whole):
                return _GONE
            self.problems[path] = error.strerror or str(error)
            return Piece("unread")
        return Piece("file", mode, size, sha256)

    def _link(self, path: str, target: str) -> Piece:
        if self._redactor is None or self._redactor.text(target) == target:
            return Piece("link", target=target)
        self.problems[path] = "it is a link, and what it leads to holds a secret"
        return Piece("unread")

    def _content(self, path: str, whole: str, found: os.stat_result) -> tuple[str, int]:
        marks, known = _marks(found), self._known.get(path)
        if known is not None and known[:-1] == marks and self._store.hold(known[-1]):
            self._seen[path] = known
            return known[-1], found.st_size
        at = time.time_ns()
        sha256, size = _digest_of(whole)
        if not self._store.hold(sha256):
            kept = self._store.keep(whole, later=self.later)
            sha256, size = str(kept["sha256"]), int(kept["size"])
        else:
            self.later.add(os.path.dirname(self._store.path_of(sha256)))
        still = _marks(os.lstat(whole)) == marks
        if still and max(found.st_mtime_ns, found.st_ctime_ns) + SETTLED < at:
            self._seen[path] = [*marks, sha256]
        return sha256, size

    def remember(self, whole: bool) -> None:
        """Write the index anew; what was not looked at this time is kept unless all was. An index that cannot be
        written only costs time."""
        files = self._seen if whole else {**self._known, **self._seen}
        staged = f"{self._index}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(staged, "w", encoding="ascii", opener=private) as file:
                json.dump({"directory": self._root, "files": files}, file, separators=(",", ":"))
            os.replace(staged, self._index)
        except OSError:
            if os.path.lexists(staged):
                os.unlink(staged)


def _marks(found: os.stat_result) -> list[int]:
    """What changes when the content of a file does."""
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def _remembered(path: str, root: str) -> dict[str, list[Json]]:
    try:
        with open(path, encoding="ascii", opener=private) as file:
            index = json.load(file)
        return index["files"] if index["directory"] == root and isinstance(index["files"], dict) else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _digest_of(path: str) -> tuple[str, int]:
    """The digest and the size of a file; the last part of the path may not be a link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ArtifactRefused(path, "it is no file any more")
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
