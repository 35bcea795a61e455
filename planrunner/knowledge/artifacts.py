"""Artifacts by content: kept once under their SHA-256, cleaned of secrets, and removed when nothing refers to them.

``artifacts/sha256/ab/cdef…`` holds the bytes of the artifact whose digest is ``abcdef…``. A directory is kept as a tar
archive that is the same for the same content: sorted, without owners and times. A content never changes.

A process that keeps a content, or refers to one, renews its age under a shared lock; the collector looks at the age
once more while it is alone. A removal is one ``unlink``: killed at any point, it leaves each content whole or gone.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator
from io import BufferedRandom, BufferedReader
from itertools import islice
from tarfile import TarFile, TarInfo
from typing import IO, TYPE_CHECKING, NamedTuple

from planrunner.errors import AGAIN, Hint, NotFound, StorageFailed
from planrunner.fileio import give_name, sync_folder, unnamed
from planrunner.plan.expressions.quantities import parse_duration
from planrunner.plan.lower.declarations import versions_kept
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.redaction import Redactor

_CHUNK = 1 << 20
_DEEPEST = 64
_STORE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""While a directory is packed these come from writing the store, others from reading the directory."""
_HINT = Hint("free some space or repair the disk, then ", AGAIN)


class ArtifactRefused(OSError):
    """The file named as an artifact cannot be one: missing, unreadable, a symbolic link, a device, a pipe, a socket.

    ``filename`` is its path and ``strerror`` the reason.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EINVAL, why, path)

    def __str__(self) -> str:
        return f"`{self.filename}` cannot be kept as an artifact: {self.strerror}"


class SecretFound(ArtifactRefused):
    """The file holds a secret that cannot be removed from it."""


class Digest(Struct):
    """What was copied: SHA-256 in hexadecimal and the number of bytes."""

    sha256: str
    size: int


class ArtifactStore:
    """The store of one state directory. Any number of processes may use it at once.

    Nothing is kept that holds a secret which ``redactor`` knows: text is kept without it, everything else, and with
    ``exact`` text as well, is refused by SecretFound. Until that is known the copy has no name.
    """

    __slots__ = ("_exact", "_redactor", "_root")

    def __init__(self, state: str, redactor: Redactor | None = None, exact: bool = False) -> None:
        self._root = os.path.join(state, "artifacts")
        self._redactor = redactor
        self._exact = exact

    def keep(self, path: str, name: str = "", type: str = "", later: set[str] | None = None) -> dict[str, str | int]:
        """Copy a file or a directory into the store and return ``sha256, size`` (in bytes) with ``name`` and ``type``.

        What is not given is left out; a directory, which is kept as a tar archive, is then of type ``directory``. The
        last part of the path may not be a symbolic link; inside a directory links stay links. The copy survives power
        loss on return; with ``later``, a set for many files, once ``settle`` was called with it. Raises ArtifactRefused
        for what cannot be kept, StorageFailed when the store cannot be written.
        """
        digest, folder = self._copied(_open_source(path), path, later)
        return _described(digest, name, type or ("directory" if folder else ""))

    def keep_in(self, folder: int, name: str) -> dict[str, str | int]:
        """Like ``keep`` for what has that name in an open folder, whatever becomes of the path of the folder; a file
        that may be executed is told as ``executable``."""
        source = _open_source(name, folder)
        executable = not stat.S_ISDIR(mode := os.fstat(source).st_mode) and bool(mode & stat.S_IXUSR)
        digest, packed = self._copied(source, name)
        return {**_described(digest, "", "directory" if packed else ""), **({"executable": True} if executable else {})}

    def _copied(self, source: int, path: str, later: set[str] | None = None) -> tuple[Digest, bool]:
        """What was copied from an open file, which is then closed, and whether it was a folder."""
        try:
            folder = stat.S_ISDIR(os.fstat(source).st_mode)
            fill = _pack if folder else _copy
            return self._store(lambda target: fill(path, source, target), later), folder
        finally:
            os.close(source)

    def settle(self, later: set[str]) -> None:
        """Make durable where files lie that ``keep`` has put off. Raises StorageFailed."""
        try:
            for folder in sorted(later):
                sync_folder(folder)
        except OSError as error:
            raise self._failed(error) from error

    def keep_open(self, descriptor: int, name: str = "", type: str = "") -> dict[str, str | int]:
        """Like ``keep`` for a file that is open, from where it stands to its end."""
        return _described(self._store(lambda target: _copy("an open file", descriptor, target)), name, type)

    def keep_bytes(self, data: bytes, name: str = "", type: str = "") -> dict[str, str | int]:
        """Like ``keep`` for data in memory."""
        return _described(self._store(lambda target: _write(target, [data])), name, type)

    def path_of(self, sha256: str) -> str:
        """Where the bytes of an artifact lie; it need not be there. Raises NotFound for what is not a SHA-256."""
        if len(sha256) != 64 or sha256.strip("0123456789abcdef"):
            raise NotFound(f"`{sha256}` is not the digest of an artifact", "expected 64 hexadecimal digits")
        return os.path.join(self._root, "sha256", sha256[:2], sha256[2:])

    def has(self, sha256: str) -> bool:
        return os.path.isfile(self.path_of(sha256))

    def hold(self, sha256: str) -> bool:
        """Whether the artifact is there; its age is renewed, so that no collector removes it
        before the run has recorded that it refers to it."""
        path = self.path_of(sha256)
        try:
            lock = self.guard()
        except FileNotFoundError:
            return False
        try:
            os.utime(path, follow_symlinks=False)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def guard(self, alone: bool = False) -> int:
        """The descriptor of the lock under which contents come (shared by all who keep them) and go (``alone``);
        closing it lets go. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(os.path.join(self._root, "lock"), flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open(self, sha256: str) -> BufferedReader:
        """The bytes of an artifact as a file; raises NotFound."""
        try:
            descriptor = os.open(self.path_of(sha256), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise NotFound(f"the store has no artifact `{sha256}`: {error.strerror}") from error
        return os.fdopen(descriptor, "rb")

    def chunks(self, sha256: str) -> Iterator[bytes]:
        """The bytes of an artifact in parts. Raises NotFound."""
        with self.open(sha256) as file:
            yield from _blocks(file)

    def read(self, sha256: str) -> bytes:
        """The whole of an artifact, compared with its digest. Raises NotFound, StorageFailed where it was damaged."""
        with self.open(sha256) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StorageFailed(f"artifact `{sha256}` is damaged: `{self.path_of(sha256)}`", "restore it from a copy")
        return data

    def is_whole(self, sha256: str) -> bool:
        """Whether the artifact is there and has the content its digest stands for."""
        try:
            with self.open(sha256) as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except NotFound:
            return False

    def __iter__(self) -> Iterator[str]:
        """Every digest in the store, in order."""
        top = os.path.join(self._root, "sha256")
        for first in sorted(_names(top)):
            for rest in sorted(_names(os.path.join(top, first))):
                yield first + rest

    def sweep(self, before: float) -> None:
        """Remove what writers that were killed left half copied; ``before`` is seconds since 1970."""
        folder = os.path.join(self._root, "tmp")
        for name in _names(folder):
            path = os.path.join(folder, name)
            try:
                if os.lstat(path).st_mtime < before:
                    os.unlink(path)
            except OSError:
                continue

    def _store(self, fill: Callable[[BufferedRandom], Digest], later: set[str] | None = None) -> Digest:
        temporary = os.path.join(self._root, "tmp", f"{os.getpid()}-{os.urandom(6).hex()}")
        try:
            for folder in (self._root, os.path.dirname(temporary)):
                _make(folder)
            try:
                with os.fdopen(self._open_target(temporary), "r+b") as target:
                    digest = fill(target) if self._redactor is None else self._clean(target, fill(target))
                    target.flush()
                    os.fchmod(target.fileno(), 0o444)
                    os.fsync(target.fileno())
                    if self._redactor is not None:
                        give_name(target.fileno(), temporary)
                self._place(temporary, digest, later)
            finally:
                if os.path.lexists(temporary):
                    os.unlink(temporary)
        except ArtifactRefused:
            raise
        except OSError as error:
            raise self._failed(error) from error
        return digest

    def _open_target(self, temporary: str) -> int:
        if self._redactor is not None:
            return unnamed(os.path.dirname(temporary))
        return os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _clean(self, target: BufferedRandom, digest: Digest) -> Digest:
        """See that no secret is in what was copied; gives its digest as it is then."""
        assert self._redactor is not None
        secrets = secrets_in(target, self._redactor)
        if not secrets.masks:
            return digest
        if self._exact or not secrets.is_text:
            raise SecretFound("", f"it holds {', '.join(secrets.masks)}")
        return Digest(*clean(target, self._redactor))

    def _failed(self, error: OSError) -> StorageFailed:
        return StorageFailed(f"the artifact store `{self._root}` cannot be written: {error.strerror}", _HINT)

    def _place(self, temporary: str, digest: Digest, later: set[str] | None) -> None:
        path = self.path_of(digest.sha256)
        folder = os.path.dirname(path)
        _make(os.path.dirname(folder))
        _make(folder)
        lock = self.guard()
        try:
            if _is_stored(path, digest.size):
                os.utime(path, follow_symlinks=False)  # renews its age
            else:
                os.rename(temporary, path)
        finally:
            os.close(lock)
        if later is not None:
            later.add(folder)
        else:
            sync_folder(folder)  # also for one that is there: another process may have placed it without syncing


def _described(digest: Digest, name: str, kind: str) -> dict[str, str | int]:
    given = {key: text for key, text in (("name", name), ("type", kind)) if text}
    return {**given, **digest._asdict()}


def _is_stored(path: str, size: int) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(there.st_mode) and there.st_size == size


def _open_source(path: str, folder: int | None = None) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        why = "it is a symbolic link, which is not followed" if error.errno == errno.ELOOP else error.strerror
        raise ArtifactRefused(path, why or str(error)) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor
    os.close(descriptor)
    raise ArtifactRefused(path, "it is neither a file nor a directory")


def _copy(path: str, source: int, target: BufferedRandom) -> Digest:
    return _write(target, _chunks(path, source))


def _chunks(path: str, source: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(source, _CHUNK)
        except OSError as error:
            raise ArtifactRefused(path, error.strerror or str(error)) from error
        if not data:
            return
        yield data


def _write(target: BufferedRandom, chunks: Iterable[bytes]) -> Digest:
    hashed, size = hashlib.sha256(), 0
    for data in chunks:
        hashed.update(data)
        size += len(data)
        target.write(data)
    return Digest(hashed.hexdigest(), size)


def _pack(path: str, source: int, target: BufferedRandom) -> Digest:
    try:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            _pack_folder(archive, tarfile.TarInfo, source, "")
    except OSError as error:
        if isinstance(error, ArtifactRefused) or error.errno in _STORE_FAULTS:
            raise
        raise ArtifactRefused(path, error.strerror or str(error)) from error
    target.seek(0)
    hashed = hashlib.file_digest(target, "sha256")
    return Digest(hashed.hexdigest(), target.tell())


def _pack_folder(archive: TarFile, member: type[TarInfo], folder: int, prefix: str) -> None:
    """Add what lies in an open directory, each entry opened relative to it: no link is followed on the way."""
    if prefix.count("/") > _DEEPEST:
        raise ArtifactRefused(prefix, f"it lies more than {_DEEPEST} directories deep")
    for name in sorted(os.listdir(folder)):
        entry, status = member(prefix + name), os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            entry.type, entry.linkname, entry.mode = b"2", os.readlink(name, dir_fd=folder), 0o777
            archive.addfile(entry)
            continue
        descriptor = _open_source(name, folder)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                entry.type, entry.mode = b"5", 0o755
                archive.addfile(entry)
                _pack_folder(archive, member, descriptor, f"{prefix}{name}/")
            else:
                entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    archive.addfile(entry, file)
        finally:
            os.close(descriptor)


def _make(folder: str) -> None:
    """Make a directory durably; one that is there must not be a link."""
    try:
        os.mkdir(folder, 0o700)
        sync_folder(os.path.dirname(folder))
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


_LOOKED_AT = 1 << 16
"""Bytes at the beginning of a file that tell whether it is text."""


class Found(Struct):
    """What would be written for the secrets of a file, and whether the file is text, in which that can be done."""

    masks: tuple[str, ...]
    is_text: bool


def secrets_in(file: IO[bytes], redactor: Redactor) -> Found:
    """Look through an open file; it stands anywhere afterwards."""
    file.seek(0)
    head = file.read(_LOOKED_AT)
    file.seek(0)
    stream = redactor.stream()
    for chunk in _blocks(file):
        stream.take(chunk)
    stream.rest()
    return Found(tuple(sorted(mask.decode() for mask in stream.met)), _is_text(head))


def clean(file: IO[bytes], redactor: Redactor) -> tuple[str, int]:
    """Rewrite a file without the secrets in it; gives its SHA-256 and its size in bytes."""
    hashed, size = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as copy:
        file.seek(0)
        stream = redactor.stream()
        for chunk in _blocks(file):
            copy.write(stream.take(chunk))
        copy.write(stream.rest())
        copy.seek(0)
        file.seek(0)
        file.truncate()
        for chunk in _blocks(copy):
            hashed.update(chunk)
            size += file.write(chunk)
    return hashed.hexdigest(), size


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(1 << 20):
        yield chunk


def _is_text(head: bytes) -> bool:
    """Whether bytes are UTF-8 without a NUL, the last character perhaps cut off."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == _LOOKED_AT and error.start >= len(head) - 3
    return True


_BATCH = 64
"""Contents that are looked at while everybody else waits."""


class Collected(Struct):
    """Digests that were removed (or would be), and their bytes; how many others are kept, and their bytes; how many of
    those nothing refers to, but are too young."""

    removed: tuple[str, ...]
    freed: int
    kept: int
    held: int
    young: int


def collect(store: ArtifactStore, live: Container[str], before: float, dry: bool = False) -> Collected:
    """Remove every content that is not ``live`` and was not touched since ``before`` (seconds since 1970).
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
                    status = os.lstat(path)
                except FileNotFoundError:
                    continue
                gone = sha256 not in live and status.st_mtime < before
                if gone and not dry:
                    os.unlink(path)
                yield sha256, status.st_size, gone
        finally:
            os.close(lock)
    except OSError as error:
        raise StorageFailed(f"artifacts cannot be removed: {error.strerror}: `{error.filename}`") from error


class Kept(NamedTuple):
    """What decides about one version: when it was made (seconds since 1970), whether its run has ended finally, and
    how many newer versions there are."""

    made: float
    ended: bool
    newer: int


def is_over(retention: str, version: Kept, now: float) -> bool:
    """Whether the content may be removed. While its run may still go on, everything is kept; a word that says
    nothing keeps it too."""
    if not version.ended:
        return False
    if retention == "run":
        return True
    if most := versions_kept(retention):
        return version.newer >= most
    lasting = parse_duration(retention)
    return lasting is not None and now - version.made >= lasting
