"""Files saved before a task starts and put back when it is rolled back, and the files of a checkpoint.

Everything stays below the directory of the run. No symbolic link is followed: a link is saved and put back as a link.
Of a file that is as it was when it was read last nothing is read again: its size, its times and its place on the disk
tell, and the index in the state directory remembers. A file that changed within two seconds before it was read is never
remembered, since it may change again without its times showing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.files.scope import Scope, scope_between
from planrunner.engine.effects import Restore, Save
from planrunner.errors import NotFound, StorageFailed
from planrunner.failures import Failure
from planrunner.fileio import replace_file
from planrunner.files import snapshot
from planrunner.files.beneath import Beneath
from planrunner.files.listing import git_position, inside, listing, matching, repository_around
from planrunner.files.match import is_glob
from planrunner.files.snapshot import Manifest, remove, restore
from planrunner.files.walk import FileState
from planrunner.journal.workspace import private
from planrunner.knowledge.artifacts import ArtifactRefused, ArtifactStore, SecretFound
from planrunner.machine.events import BackupMade, CheckpointTaken, Outcome, UndoEnded
from planrunner.records import astuple

if TYPE_CHECKING:
    from planrunner.engine.effects import TakeCheckpoint
    from planrunner.redaction import Redactor

Json = Any


MOST = 100_000
"""Files of one backup; files, links and folders of one checkpoint."""


def saved_or_restored(
    state_dir: str, effect: Save | Restore, redactor: Redactor | None = None
) -> BackupMade | UndoEnded:
    """Do what the effect asks for and tell how it went. Raises StorageFailed when copies cannot be kept."""
    if isinstance(effect, Restore):
        return UndoEnded(effect.task, effect.attempt, put_back(state_dir, effect))
    answer = BackupMade(effect.task, effect.visit, effect.patterns)
    try:
        return answer._replace(files=save(state_dir, effect.directory, effect.patterns, redactor, _scope(effect)))
    except Failure as failure:
        return answer._replace(problem=str(failure), rule=failure.rule)


def _scope(effect: Save | Restore) -> Scope | None:
    return scope_between(effect.rights, effect.directory, effect.directory) if effect.rights else None


def save(
    state_dir: str,
    root: str,
    patterns: Sequence[str],
    redactor: Redactor | None = None,
    scope: Scope | None = None,
) -> tuple[dict[str, Json], ...]:
    """Copy every file below ``root`` that fits the patterns into the store of artifacts; the copies are durable on
    return. Gives a record of each file, link and folder.

    Raises Failure for a pattern that leads out of ``root``, a file that cannot be read or one with a secret that
    ``redactor`` knows; Failure (policy) where ``scope`` does not let a file be read, or a named one be restored. Raises
    StorageFailed.
    """
    store = ArtifactStore(state_dir, redactor, exact=True)
    paths = sorted(_fitting(state_dir, root, patterns))
    if len(paths) > MOST:
        raise Failure(f"{len(paths)} files fit the patterns, and at most {MOST} are saved")
    if scope is not None:
        for named in patterns:
            if not is_glob(named):  # what fits a pattern need not be put back, unless it changes
                scope.require("read", (named,))
                scope.require("write", (named,))
        for path in paths:
            if os.path.islink(os.path.join(root, path)) or not os.path.isdir(os.path.join(root, path)):
                scope.require("read", (path,))
    records = tuple(_record(store, root, path) for path in paths)
    for record in records:
        for what, text in (("name", record["path"]), ("target", record.get("link", ""))):
            if redactor is not None and (shown := redactor.text(text)) != text:
                path = shown if what == "name" else record["path"]
                raise Failure(f"{path} cannot be saved: its {what} holds a secret, which is kept nowhere; rename it")
    return records


def _fitting(state_dir: str, root: str, patterns: Sequence[str]) -> set[str]:
    """Everything that fits, but for what planrunner keeps itself: a journal is never put back."""
    own = os.path.relpath(os.path.abspath(state_dir), root)
    paths = {path for pattern in patterns for path in matching(root, inside(root, root, pattern))}
    return {path for path in paths if path != own and not path.startswith(own + "/")}


def _record(store: ArtifactStore, root: str, path: str) -> dict[str, Json]:
    whole = os.path.join(root, path)
    try:
        present = os.lstat(whole)
        if stat.S_ISLNK(present.st_mode):
            return {"path": path, "link": os.readlink(whole)}
        mode = stat.S_IMODE(present.st_mode)
        if stat.S_ISDIR(present.st_mode):
            return {"path": path, "mode": mode, "folder": True}
        kept = store.keep(whole)
    except SecretFound as refused:
        raise Failure(f"{path} cannot be saved: {refused.strerror}") from None
    except ArtifactRefused as refused:
        raise Failure(str(refused)) from None
    except OSError as error:
        raise Failure(f"{path} cannot be saved: {error.strerror}") from None
    return {"path": path, "mode": mode, "sha256": kept["sha256"], "size": kept["size"]}


def _state(record: dict[str, Json]) -> FileState:
    """The state that ``_record`` wrote."""
    if "link" in record:
        return FileState("link", target=str(record["link"]))
    if record.get("folder"):
        return FileState("folder", int(record["mode"]))
    return FileState("file", int(record["mode"]), int(record["size"]), str(record["sha256"]))


def put_back(state_dir: str, effect: Restore) -> Outcome:
    """Put everything back as it was saved; a second time it changes nothing. What cannot be put back fails the attempt
    after everything else was; what its policy does not let be written stays as it is."""
    store, root, scope = ArtifactStore(state_dir), effect.directory, _scope(effect)
    states = {str(record["path"]): _state(record) for record in effect.files}
    problems: list[tuple[str, str]] = []
    """Each with the rule that refuses, where one does."""

    def permit(path: str) -> None:
        if scope is not None:
            scope.require("write", (path,))

    def tried(path: str, act: Callable[[], bool]) -> bool:
        try:
            return act()
        except Failure as failure:
            problems.append((f"{path}: {failure}", failure.rule))
        except (NotFound, StorageFailed) as problem:
            problems.append((f"{path}: {problem}", ""))
        except OSError as error:
            problems.append((f"{path}: {error.strerror}", ""))
        return False

    try:
        present = _fitting(state_dir, root, effect.patterns)
        tree = Beneath(root)
    except Failure as refused:
        return Outcome("policy", str(refused), rule=refused.rule or "files.beneath")
    changed = 0
    with tree:
        for path in sorted(present - states.keys(), reverse=True):
            changed += tried(path, partial(remove, tree, path, permit))
        for path, state in sorted(states.items()):
            changed += tried(path, partial(restore, tree, path, state, partial(store.chunks, state.sha256), permit))
    if problems:
        rule = next((rule for _, rule in problems if rule), "")
        words = [why for why, _ in sorted(problems, key=lambda problem: not problem[1])]
        more = f" and {len(words) - 3} more" if len(words) > 3 else ""
        return Outcome("policy" if rule else "logic", "; ".join(words[:3]) + more, rule=rule)
    return Outcome(outputs={"files": len(states), "changed": changed})


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
    answer = CheckpointTaken(*astuple(asked))
    if repository_around(root):
        answer = answer._replace(git=git_position(root))
    try:
        found, unread, _ = listing(root, state_dir, asked.patterns, MOST)
        size = sum(one.st_size for one in found.values() if stat.S_ISREG(one.st_mode))
        if redactor is not None and (hidden := [path for path in (*found, *unread) if redactor.text(path) != path]):
            shown = redactor.text(sorted(hidden)[0])
            raise Failure(f"the name of {shown} holds a secret: rename it, or name other `paths`")
        if size > LARGEST:
            raise Failure(f"its {size:,} bytes are more than {LARGEST:,}: name the files to keep with `paths`")
    except Failure as refused:
        return answer._replace(problem=str(refused))
    reader = _Reader(state_dir, root, store, redactor)
    pieces = {path: reader.piece(path, one) for path, one in found.items()}
    pieces.update(dict.fromkeys(unread, FileState("unread")))
    store.settle(reader.later)
    problems = unread | reader.problems
    reader.remember(whole=not asked.patterns)
    manifest = Manifest(asked.patterns, {path: piece for path, piece in pieces.items() if piece is not _GONE})
    answer = answer._replace(problem=_told(problems), files=snapshot.keep(store, manifest))
    return _counted(store, answer, manifest)


def _counted(store: ArtifactStore, answer: CheckpointTaken, manifest: Manifest) -> CheckpointTaken:
    size = sum(piece.size for piece in manifest.states.values())
    answer = answer._replace(held=len(manifest.states), size=size)
    if not answer.since:
        return answer
    try:
        before = snapshot.read(store, answer.since)
    except (NotFound, ValueError):
        return answer._replace(since="")
    added, changed, removed = map(len, snapshot.changes(before, manifest))
    return answer._replace(added=added, changed=changed, removed=removed)


def _told(problems: dict[str, str]) -> str:
    shown = [f"{path} cannot be read: {why}" for path, why in sorted(problems.items())[:3]]
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    return ("; ".join(shown) + more).encode("utf-8", "backslashreplace").decode()


_GONE = FileState("gone")


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

    def piece(self, path: str, info: os.stat_result) -> FileState:
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISDIR(info.st_mode):
            return FileState("folder", mode)
        whole = os.path.join(self._root, path)
        try:
            if stat.S_ISLNK(info.st_mode):
                return self._link(path, os.readlink(whole))
            sha256, size = self._content(path, whole, info)
        except FileNotFoundError:
            return _GONE
        except OSError as error:
            if not os.path.lexists(whole):
                return _GONE
            self.problems[path] = error.strerror or str(error)
            return FileState("unread")
        return FileState("file", mode, size, sha256)

    def _link(self, path: str, target: str) -> FileState:
        if self._redactor is None or self._redactor.text(target) == target:
            return FileState("link", target=target)
        self.problems[path] = "it is a link, and what it leads to holds a secret"
        return FileState("unread")

    def _content(self, path: str, whole: str, info: os.stat_result) -> tuple[str, int]:
        marks, known = _marks(info), self._known.get(path)
        if known is not None and known[:-1] == marks and self._store.hold(known[-1]):
            self._seen[path] = known
            return known[-1], info.st_size
        at = time.time_ns()
        sha256, size = _digest_of(whole)
        if not self._store.hold(sha256):
            kept = self._store.keep(whole, later=self.later)
            sha256, size = str(kept["sha256"]), int(kept["size"])
        else:
            self.later.add(os.path.dirname(self._store.path_of(sha256)))
        still = _marks(os.lstat(whole)) == marks
        if still and max(info.st_mtime_ns, info.st_ctime_ns) + SETTLED < at:
            self._seen[path] = [*marks, sha256]
        return sha256, size

    def remember(self, whole: bool) -> None:
        """Rewrite the index; entries that were not looked at this time are kept unless all were. An index that cannot
        be written only costs time."""
        files = self._seen if whole else {**self._known, **self._seen}
        index = json.dumps({"directory": self._root, "files": files}, separators=(",", ":"))
        with contextlib.suppress(OSError):
            replace_file(self._index, index.encode("ascii"))


def _marks(info: os.stat_result) -> list[int]:
    """What changes when the content of a file does."""
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev]


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
            raise ArtifactRefused(path, "it is no longer a file")
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
