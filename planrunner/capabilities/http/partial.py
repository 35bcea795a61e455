"""What a download has so far, kept between tries, attempts and runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from planrunner.capabilities.contract import Context
from planrunner.capabilities.files.records import forget_old

FOLDER = "http-downloads"


class Partial:
    """The beginning of a file and what it is the beginning of: the validator that the server gave it.

    One download at a time holds it; another one of the same address at the same time gets a place of its own.
    """

    __slots__ = ("_file", "_folder", "_name", "_shared", "resumed", "validator")

    def __init__(self, context: Context, identity: str) -> None:
        self._folder = context.cache(FOLDER)
        self._name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        if self._name.startswith("0"):  # now and then
            forget_old(self._folder)
        self._file = self._open()
        self._shared = _locked(self._file)
        if not self._shared:
            self._file.close()
            self._name = f"{self._name}-{uuid.uuid4().hex[:12]}"
            self._file = self._open()
        self.validator = self._remembered()
        self.resumed = 0

    @property
    def path(self) -> str:
        return os.path.join(self._folder, f"{self._name}.part")

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def begin(self, validator: str) -> None:
        """Forget what is there; what comes now belongs to ``validator`` (empty: it cannot be gone on with)."""
        self._file.truncate(0)
        self.validator, self.resumed = validator, 0
        staged = f"{self._note()}.{uuid.uuid4().hex[:8]}"
        with open(staged, "w", encoding="utf-8") as note:
            json.dump({"validator": validator}, note)
        os.replace(staged, self._note())

    def add(self, data: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        rest = memoryview(data)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]

    def digest(self) -> str:
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()  # type: ignore[arg-type]

    def parts(self) -> Iterator[bytes]:
        """The whole content in pieces."""
        self._file.seek(0)
        while part := self._file.read(1 << 20):
            yield part

    def drop(self) -> None:
        """Remove it: the download is complete, or what is there is worth nothing."""
        for path in (self.path, self._note()):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def close(self) -> None:
        if not self._shared:
            self.drop()
        self._file.close()

    def _open(self) -> BinaryIO:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return cast("BinaryIO", os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0))

    def _note(self) -> str:
        return os.path.join(self._folder, f"{self._name}.json")

    def _remembered(self) -> str:
        try:
            with open(self._note(), encoding="utf-8") as note:
                found: Any = json.load(note)
            return str(found["validator"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""


def _locked(opened: BinaryIO) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return os.fstat(opened.fileno()).st_nlink > 0  # else whoever held it has removed it meanwhile
