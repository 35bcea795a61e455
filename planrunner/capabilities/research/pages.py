"""Pages that were fetched before, by address: kept with time, digest and validators in the cache of the project."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os

from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO


class Page(NamedTuple):
    """An answer. ``moved`` is where the address led with a redirect, and then there is no body; ``fetched_at`` is when
    the body came over the wire, ``checked_at`` when the server last said that it still holds."""

    url: str
    status: int
    type: str = ""
    charset: str = ""
    sha256: str = ""
    fetched_at: str = ""
    checked_at: str = ""
    etag: str = ""
    modified: str = ""
    moved: str = ""

    @property
    def validators(self) -> dict[str, str]:
        """The headers that ask whether the page is still the same."""
        given = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in given.items() if value}


class Pages:
    """The cache in one folder. Any number of processes may use it: files are replaced as a whole, and a body that does
    not have its digest counts as not there."""

    __slots__ = ("_folder",)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, url: str) -> tuple[Page, bytes] | None:
        """What is kept of an address."""
        try:
            with open(self._path(url, "json"), encoding="utf-8") as file:
                page = Page(**json.load(file))
            if page.moved:
                return page, b""
            with open(self._path(url, "body"), "rb") as file:
                body = file.read()
        except (OSError, ValueError, TypeError):
            return None
        return (page, body) if page.url == url and hashlib.sha256(body).hexdigest() == page.sha256 else None

    def keep(self, page: Page, body: bytes) -> None:
        if not page.moved:
            self._write(self._path(page.url, "body"), body)
        self._write(self._path(page.url, "json"), json.dumps(page._asdict()).encode())

    def part(self, url: str) -> Part:
        """What came of a body before the connection broke."""
        path = self._path(url, "part")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return Part(path)

    def _path(self, url: str, ending: str) -> str:
        digest = hashlib.sha256(url.encode()).hexdigest()
        return f"{self._folder}/{digest[:2]}/{digest[2:]}.{ending}"

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        staged = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(staged, "xb") as file:
                file.write(data)
            os.replace(staged, path)
        finally:
            if os.path.lexists(staged):
                os.unlink(staged)


class Part:
    """The beginning of a body in a file, headed by the validator it belongs to. While another process writes it, this
    one starts from nothing and leaves nothing."""

    __slots__ = ("_file", "_head", "_path", "validator")

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._head = 0
        self.validator = ""
        handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            return
        self._file = handle
        line = handle.readline(1_000)
        self._head = len(line)
        self.validator = line[:-1].decode("latin-1") if line.endswith(b"\n") else ""

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is None:
            return
        if not self.have:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        self._file.close()

    @property
    def have(self) -> int:
        """How many bytes of the body are there already; none where nothing says which body they are of."""
        if self._file is None or not self.validator:
            return 0
        return self._file.seek(0, os.SEEK_END) - self._head

    def restart(self, validator: str) -> None:
        """Forget what is there; what follows belongs to ``validator``, empty where it cannot be gone on with."""
        self.validator = validator
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.write(f"{validator}\n".encode("latin-1", "replace"))
            self._head = self._file.tell()

    def add(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
            self._file.flush()

    def take(self) -> bytes:
        """What was there before, read back."""
        if self._file is None:
            return b""
        self._file.seek(self._head)
        data = self._file.read()
        self._file.seek(0, os.SEEK_END)
        return data
