"""Files saved before a task starts, and put back when it is rolled back: content, mode, and that they were not there.

Everything stays below the directory of the run. No symbolic link is followed: a link is saved and put back as a link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.scope import Scope, scope_between
from planrunner.engine.effects import Restore, Save
from planrunner.engine.patterns import Refused, inside, is_pattern, matching
from planrunner.errors import NotFound, StorageFailed
from planrunner.knowledge.artifacts import ArtifactRefused, ArtifactStore, SecretFound
from planrunner.machine.events import AttemptEnded, BackupMade, Outcome

if TYPE_CHECKING:
    from planrunner.redaction import Redactor

Json = Any

MOST = 100_000
"""Files of one backup; files, links and folders of one checkpoint."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def saved_or_restored(
    state_dir: str, effect: Save | Restore, redactor: Redactor | None = None
) -> BackupMade | AttemptEnded:
    """Do what the effect asks for and tell how it went. Raises StorageFailed when copies cannot be kept."""
    if isinstance(effect, Restore):
        return AttemptEnded(effect.task, effect.attempt, put_back(state_dir, effect))
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
    file that cannot be read or one with a secret that ``redactor`` knows, StorageFailed, and Failure (policy) where
    ``scope`` does not let a file be read, or one that is named be put back.
    """
    store = ArtifactStore(state_dir, redactor, exact=True)
    found = sorted(_found(state_dir, root, patterns))
    if len(found) > MOST:
        raise Refused(f"{len(found)} files fit the patterns, and at most {MOST} are saved")
    if scope is not None:
        _require(scope, root, [pattern for pattern in patterns if not is_pattern(pattern)], found)
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
    """A name in the same folder that nobody else uses, short enough whatever ``name`` is."""
    return f".{os.fsdecode(os.fsencode(name)[:200])}.{mark}.planrunner"
