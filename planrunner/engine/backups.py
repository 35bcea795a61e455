"""Files saved before a task starts and put back when it is rolled back, and the files of a checkpoint.

Everything stays below the directory of the run. No symbolic link is followed: a link is saved and put back as a link.
Of a file that is as it was when it was read last nothing is read again: its size, its times and its place on the disk
tell, and the index in the state directory remembers. A file that changed within two seconds before it was read is never
remembered, since it may change again without its times showing it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.scope import Scope, scope_between
from planrunner.engine.effects import Restore, Save
from planrunner.errors import NotFound, StorageFailed
from planrunner.files import listing as files
from planrunner.files.listing import Refused, inside, listing, matching
from planrunner.files.match import is_glob
from planrunner.journal.workspace import private
from planrunner.knowledge import directories
from planrunner.knowledge.artifacts import ArtifactRefused, ArtifactStore, SecretFound
from planrunner.knowledge.directories import Manifest, Piece
from planrunner.machine.events import BackupMade, CheckpointTaken, Outcome, UndoEnded

if TYPE_CHECKING:
    from planrunner.engine.effects import TakeCheckpoint
    from planrunner.redaction import Redactor

Json = Any


MOST = 100_000
"""Files of one backup; files, links and folders of one checkpoint."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def saved_or_restored(
    state_dir: str, effect: Save | Restore, redactor: Redactor | None = None
) -> BackupMade | UndoEnded:
    """Do what the effect asks for and tell how it went. Raises StorageFailed when copies cannot be kept."""
    if isinstance(effect, Restore):
        return UndoEnded(effect.task, effect.attempt, put_back(state_dir, effect))
    answer = BackupMade(effect.task, effect.visit, effect.patterns)
    try:
        return answer._replace(files=save(state_dir, effect.directory, effect.patterns, redactor, _scope(effect)))
    except Refused as refused:
        return answer._replace(problem=str(refused))
    except Failure as failure:
        return answer._replace(problem=str(failure), rule=failure.rule)


def _scope(effect: Save | Restore) -> Scope | None:
    if not effect.rights:
        return None
    return scope_between(effect.rights, effect.directory, effect.directory)


def save(
    state_dir: str,
    root: str,
    patterns: Sequence[str],
    redactor: Redactor | None = None,
    scope: Scope | None = None,
) -> tuple[dict[str, Json], ...]:
    """Copy every file below ``root`` that fits the patterns into the store of artifacts; the copies are durable on
    return. Gives a record of each file, link and folder. Raises Refused for a pattern that leads out of ``root``, a
    file that cannot be read or one with a secret that ``redactor`` knows; StorageFailed; Failure (policy) where
    ``scope`` does not let a file be read, or a named one be restored.
    """
    store = ArtifactStore(state_dir, redactor, exact=True)
    found = sorted(_found(state_dir, root, patterns))
    if len(found) > MOST:
        raise Refused(f"{len(found)} files fit the patterns, and at most {MOST} are saved")
    if scope is not None:
        _require(scope, root, [pattern for pattern in patterns if not is_glob(pattern)], found)
    records = tuple(_record(store, root, path) for path in found)
    if redactor is not None:
        _require_no_secret(redactor, records)
    return records


def _require_no_secret(redactor: Redactor, records: Sequence[dict[str, Json]]) -> None:
    """What is saved is kept by its name, and a link by what it leads to."""
    for record in records:
        for what, text in (("name", record["path"]), ("target", record.get("link", ""))):
            if (shown := redactor.text(text)) != text:
                told = shown if what == "name" else record["path"]
                raise Refused(f"{told} cannot be saved: its {what} holds a secret, which is kept nowhere; rename it")


def _require(scope: Scope, root: str, named: Sequence[str], found: Sequence[str]) -> None:
    """A folder may be saved for what may be read in it; what fits a pattern need not be put back, unless it changes."""
    for path in named:
        scope.require("read", (path,))
        scope.require("write", (path,))
    for path in found:
        if os.path.islink(os.path.join(root, path)) or not os.path.isdir(os.path.join(root, path)):
            scope.require("read", (path,))


def _found(state_dir: str, root: str, patterns: Sequence[str]) -> set[str]:
    """Everything that fits, but for what planrunner keeps itself: a journal is never put back."""
    own = os.path.relpath(os.path.abspath(state_dir), root)
    found = {path for pattern in patterns for path in matching(root, inside(root, root, pattern))}
    return {path for path in found if path != own and not path.startswith(own + "/")}


def _record(store: ArtifactStore, root: str, path: str) -> dict[str, Json]:
    whole = os.path.join(root, path)
    try:
        found = os.lstat(whole)
        if stat.S_ISLNK(found.st_mode):
            return {"path": path, "link": os.readlink(whole)}
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            return {"path": path, "mode": mode, "folder": True}
        kept = store.keep(whole)
    except SecretFound as refused:
        raise Refused(f"{path} cannot be saved: {refused.strerror}") from None
    except ArtifactRefused as refused:
        raise Refused(str(refused)) from None
    except OSError as error:
        raise Refused(f"{path} cannot be saved: {error.strerror}") from None
    return {"path": path, "mode": mode, "sha256": kept["sha256"], "size": kept["size"]}


def put_back(state_dir: str, effect: Restore) -> Outcome:
    """Put everything back as it was saved; doing it again changes nothing. What cannot be put back fails the attempt
    after everything else was; what its policy does not let be written stays as it is."""
    store, root, scope = ArtifactStore(state_dir), effect.directory, _scope(effect)
    records = {str(record["path"]): record for record in effect.files}
    problems: list[tuple[str, str]] = []

    def permit(path: str) -> None:
        if scope is not None:
            scope.require("write", (path,))

    try:
        there = _found(state_dir, root, effect.patterns)
    except Refused as refused:
        return Outcome("policy", str(refused), rule="files.beneath")
    changed = 0
    for path in sorted(there - records.keys(), reverse=True):
        changed += _tried(problems, path, partial(remove, root, path, permit))
    for path, record in sorted(records.items()):
        changed += _tried(problems, path, partial(restore, store, root, record, permit))
    if problems:
        rule = next((rule for _, rule in problems if rule), "")
        words = [why for why, _ in sorted(problems, key=lambda each: not each[1])]
        more = f" and {len(words) - 3} more" if len(words) > 3 else ""
        return Outcome("policy" if rule else "logic", "; ".join(words[:3]) + more, rule=rule)
    return Outcome(outputs={"files": len(records), "changed": changed})


def _tried(problems: list[tuple[str, str]], path: str, act: Callable[[], bool]) -> bool:
    """Each problem with the rule that refuses, where one does."""
    try:
        return act()
    except Failure as failure:
        problems.append((f"{path}: {failure}", failure.rule))
    except (Refused, NotFound, StorageFailed) as problem:
        problems.append((f"{path}: {problem}", ""))
    except OSError as error:
        problems.append((f"{path}: {error.strerror}", ""))
    return False


def _free(path: str) -> None:
    """Anything may change."""


def _parent(root: str, path: str, create: bool) -> tuple[int, str]:
    """The folder of ``path`` as a descriptor, reached without a link on the way, and the name inside it."""
    *folders, name = path.split("/")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in folders:
        try:
            if create:
                _made(folder, part)
            inner = os.open(part, _FOLDER, dir_fd=folder)
        except NotADirectoryError:
            raise Refused(f"leads through `{part}`, which is a link or no folder") from None
        finally:
            os.close(folder)
        folder = inner
    return folder, name


def _made(folder: int, name: str) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        return


def remove(root: str, path: str, permit: Callable[[str], None] = _free) -> bool:
    """Take away what was not there; a folder that still holds something stays. True when something changed. Raises
    OSError, Refused where the way to it leads through a link, and whatever ``permit`` raises for the path."""
    permit(path)
    folder, name = _parent(root, path, create=False)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return False
        else:
            os.unlink(name, dir_fd=folder)
        os.fsync(folder)
        return True
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)


class _Place(NamedTuple):
    """A path about to be put back: its ``folder``, open, its ``name`` there and what has the name now. ``permit``
    raises where it may not change."""

    folder: int
    name: str
    found: os.stat_result | None
    permit: Callable[[], None]


def restore(store: ArtifactStore, root: str, record: dict[str, Json], permit: Callable[[str], None] = _free) -> bool:
    """Make one path below ``root`` what its record says: all at once, or not at all. True when something changed.
    Raises OSError, Refused where its content is gone or the way to it leads through a link, NotFound, StorageFailed,
    and whatever ``permit`` raises, which is asked before something changes."""
    path = str(record["path"])
    try:
        folder, name = _parent(root, path, create=False)
    except FileNotFoundError:
        permit(path)
        folder, name = _parent(root, path, create=True)
    try:
        place = _Place(folder, name, _look(folder, name), lambda: permit(path))
        if "link" in record:
            return _put_link(place, str(record["link"]))
        if record.get("folder"):
            return _put_folder(place, int(record["mode"]))
        return _put_file(store, place, record)
    finally:
        os.close(folder)


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _clear(folder: int, name: str, found: os.stat_result | None) -> None:
    """Make room for something of another kind."""
    if found is not None and stat.S_ISDIR(found.st_mode):
        os.rmdir(name, dir_fd=folder)
    elif found is not None:
        os.unlink(name, dir_fd=folder)


def _put_link(place: _Place, target: str) -> bool:
    folder, name, found, permit = place
    if found is not None and stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == target:
        return False
    permit()
    staged = _beside(name, "link")
    if _look(folder, staged) is not None:
        os.unlink(staged, dir_fd=folder)
    if found is not None and stat.S_ISDIR(found.st_mode):
        _clear(folder, name, found)
    os.symlink(target, staged, dir_fd=folder)
    os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
    return True


def _put_folder(place: _Place, mode: int) -> bool:
    folder, name, found, permit = place
    is_folder = found is not None and stat.S_ISDIR(found.st_mode)
    if found is not None and is_folder and stat.S_IMODE(found.st_mode) == mode:
        return False
    permit()
    if not is_folder:
        _clear(folder, name, found)
        os.mkdir(name, dir_fd=folder)
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        os.fchmod(inner, mode)
    finally:
        os.close(inner)
    os.fsync(folder)
    return True


def _put_file(store: ArtifactStore, place: _Place, record: dict[str, Json]) -> bool:
    folder, name, found, permit = place
    digest, mode = str(record["sha256"]), int(record["mode"])
    if not store.is_whole(digest):
        raise Refused("its saved copy is missing or damaged")
    alike = found is not None and stat.S_ISREG(found.st_mode) and found.st_size == record["size"]
    if found is not None and alike and _digest(folder, name) == digest:
        if stat.S_IMODE(found.st_mode) == mode:
            return False
        permit()
        os.chmod(name, mode, dir_fd=folder)
        return True
    permit()
    if found is not None and not stat.S_ISREG(found.st_mode):
        _clear(folder, name, found)
    _stage(store, folder, name, digest, mode)
    return True


def _digest(folder: int, name: str) -> str:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except (PermissionError, FileNotFoundError):  # the latter: it has gone since it was looked at
        return ""
    with os.fdopen(handle, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stage(store: ArtifactStore, folder: int, name: str, digest: str, mode: int) -> None:
    """Write beside, make durable, rename: readers see the file as it was or as it is, never a part."""
    staged = _beside(name, digest[:12])
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(staged, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as target, store.open(digest) as source:
            while data := source.read(1 << 20):
                target.write(data)
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.fsync(target.fileno())
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(staged, dir_fd=folder)
        raise
    os.fsync(folder)


def _beside(name: str, mark: str) -> str:
    """A unique name in the same folder, short enough whatever ``name`` is."""
    return f".{os.fsdecode(os.fsencode(name)[:200])}.{mark}.planrunner"


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
    if files.in_repository(root):
        answer = answer._replace(git=files.git_position(root))
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
        """Rewrite the index; entries that were not looked at this time are kept unless all were. An index that cannot
        be written only costs time."""
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
            raise ArtifactRefused(path, "it is no longer a file")
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
