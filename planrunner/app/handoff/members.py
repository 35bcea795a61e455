"""The files of an archive, and how they are written: as a folder or a tar archive, whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

from planrunner.errors import UsageError
from planrunner.records import Struct

_ODD = re.compile(r"[^A-Za-z0-9._+=,@#\[\]-]+")
_LONGEST = 120
_CHUNK = 1 << 20
TARS = (".tar", ".tar.gz", ".tgz")


class Member(Struct):
    """A file of an archive: its path, what it is in a few words, and where its bytes come from."""

    path: str
    about: str
    opened: Callable[[], IO[bytes]]


class Written(NamedTuple):
    """A file that was written; ``sha256`` is of its bytes."""

    path: str
    about: str
    size: int
    sha256: str


def of_text(path: str, about: str, text: str) -> Member:
    """A file with a text."""
    data = text.encode("utf-8", "surrogateescape")
    return Member(path, about, lambda: io.BytesIO(data))


def safe_name(name: str) -> str:
    """A name of a run as one part of a path: nothing leads elsewhere, nothing is too long, names that differ stay
    apart."""
    plain = _ODD.sub("_", name.replace("/", "+")).lstrip(".-") or "_"
    if plain == name.replace("/", "+") and len(plain) <= _LONGEST:
        return plain
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    stem, dot, end = plain[:_LONGEST].rpartition(".")
    return f"{stem}~{mark}{dot}{end}" if dot and stem and len(end) <= 8 else f"{plain[:_LONGEST]}~{mark}"


def sums(written: Iterable[Written]) -> str:
    """The digests as ``sha256sum --check`` reads them."""
    return "".join(f"{each.sha256}  {each.path}\n" for each in written)


class Target:
    """Where an archive is written: beside its place, and moved there once it is complete.

    A path that ends in ``.tar``, ``.tar.gz`` or ``.tgz`` becomes one file, any other a folder. ``at`` (seconds since
    1970) is the time that files of a tar archive have. Raises UsageError for a place that is taken or cannot be
    written."""

    def __init__(self, path: str, at: float) -> None:
        self.path, self._at = path.rstrip("/"), int(at)
        if os.path.lexists(self.path):
            raise UsageError(f"`{self.path}` is there already", "name another place with -o")
        _remove_remains(self.path)
        self._staged = f"{self.path}.{os.getpid()}-{os.urandom(4).hex()}.planrunner"
        self.name = os.path.basename(self.path)
        for end in TARS:
            self.name = self.name.removesuffix(end)
        self._tar: tarfile.TarFile | None = None
        self._zipped: gzip.GzipFile | None = None

    def __enter__(self) -> Target:
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"`{self.path}` cannot be written: {error.strerror}") from error
        return self

    def _open(self) -> None:
        if not self.path.endswith(TARS):
            os.mkdir(self._staged, 0o700)
        elif self.path.endswith(".tar"):
            self._tar = tarfile.TarFile(self._staged, "x", format=tarfile.PAX_FORMAT)
        else:
            self._zipped = gzip.GzipFile(self._staged, "xb", mtime=self._at)
            self._tar = tarfile.TarFile(fileobj=self._zipped, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, member: Member) -> Written:
        """Write a file. Raises UsageError where that fails."""
        try:
            with member.opened() as source:
                return self._in_tar(member, source) if self._tar is not None else self._in_folder(member, source)
        except OSError as error:
            raise UsageError(f"`{self.path}` cannot be written: {error.strerror or error}") from error

    def _in_folder(self, member: Member, source: IO[bytes]) -> Written:
        path = os.path.join(self._staged, member.path)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        hashed, size = hashlib.sha256(), 0
        with open(path, "xb") as file:
            for piece in _pieces(source):
                file.write(piece)
                hashed.update(piece)
                size += len(piece)
        return Written(member.path, member.about, size, hashed.hexdigest())

    def _in_tar(self, member: Member, source: IO[bytes]) -> Written:
        assert self._tar is not None
        info = tarfile.TarInfo(f"{self.name}/{member.path}")
        info.size, info.mtime, info.mode = source.seek(0, os.SEEK_END), self._at, 0o644
        source.seek(0)
        hashing = _Hashing(source)
        self._tar.addfile(info, hashing)
        return Written(member.path, member.about, info.size, hashing.sha256.hexdigest())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tar is not None:
            self._tar.close()
        if self._zipped is not None:
            self._zipped.close()
        if kind is None:
            try:
                os.rename(self._staged, self.path)
                return
            except OSError as error:
                self._remove()
                raise UsageError(f"`{self.path}` cannot be written: {error.strerror}") from error
        self._remove()

    def _remove(self) -> None:
        _remove(self._staged)


def _remove_remains(path: str) -> None:
    """Remove what writers of the same archive left that were killed: their processes are gone."""
    folder, name = os.path.split(path)
    left = re.compile(rf"{re.escape(name)}\.(\d+)-[0-9a-f]{{8}}\.planrunner")
    with contextlib.suppress(OSError):
        for each in os.listdir(folder or "."):
            match = left.fullmatch(each)
            if match and not os.path.exists(f"/proc/{match[1]}"):
                _remove(os.path.join(folder, each))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


class _Hashing(io.RawIOBase):
    """A file whose digest is known once it was read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self.sha256 = source, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.sha256.update(data)
        return data


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_CHUNK):
        yield piece
