"""What a download has so far, kept between tries, attempts and runs.

Beside it lies a note of how far it is known to have come over the wire, and of what: what is there beyond that, or was
put there by anybody but planrunners of this user, is not gone on with.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from typing import BinaryIO, cast

from planrunner.capabilities.contract import Context
from planrunner.capabilities.files.records import forget_old

FOLDER = "http-downloads"

_NOTED = 1 << 18
"""Bytes after which the note is renewed while a file grows. A runner that is killed loses so many of it."""
_CHUNK = 1 << 20


class Partial:
    """The beginning of a file and what it is the beginning of: the validator that the server gave it.

    One download at a time holds it; another one of the same address at the same time gets a place of its own.
    """

    __slots__ = (
        "_context",
        "_digest",
        "_file",
        "_folder",
        "_gone",
        "_name",
        "_noted",
        "_shared",
        "_sure",
        "resumed",
        "validator",
    )

    def __init__(self, context: Context, identity: str) -> None:
        self._context = context
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
        self._gone = False
        self._digest = hashlib.sha256()
        self._sure = self._noted = 0
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
        self._digest = hashlib.sha256()
        self._sure = self._noted = 0
        self.validator, self.resumed = validator, 0

    def add(self, data: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        rest = memoryview(data)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]
        self._digest.update(data)
        self._sure += len(data)
        if self._sure - self._noted >= _NOTED:
            self._write_note()

    def digest(self) -> str:
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()  # type: ignore[arg-type]

    def parts(self) -> Iterator[bytes]:
        """The whole content in pieces."""
        self._file.seek(0)
        while part := self._file.read(_CHUNK):
            yield part

    def drop(self) -> None:
        """Remove it: the download is complete, or what is there is worth nothing."""
        self._gone = True
        for path in (self.path, self._note()):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def close(self) -> None:
        if not self._shared:
            self.drop()
        elif not self._gone and self._sure > self._noted:
            with contextlib.suppress(OSError):  # then less is gone on with
                self._write_note()
        self._file.close()

    def _open(self) -> BinaryIO:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return cast("BinaryIO", os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0))

    def _note(self) -> str:
        return os.path.join(self._folder, f"{self._name}.json")

    def _remembered(self) -> str:
        """The validator of what is there; what nobody vouches for is taken away."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            with open(self._note(), encoding="utf-8") as note:
                stored = self._context.opened(f"download {self._name}", note.read())
            validator, size, digest = json.loads(stored or "null")
            if self._read_up_to(size) == size and digest == self._digest.hexdigest():
                self._file.truncate(size)
                self._sure = self._noted = size
                return str(validator)
        self.begin("")
        return ""

    def _read_up_to(self, size: int) -> int:
        """Digest the beginning of the file; gives how much there is of it."""
        have = 0
        while have < size and (part := self._file.read(min(_CHUNK, size - have))):
            self._digest.update(part)
            have += len(part)
        return have

    def _write_note(self) -> None:
        told = json.dumps([self.validator, self._sure, self._digest.hexdigest()])
        staged = f"{self._note()}.{uuid.uuid4().hex[:8]}"
        with open(staged, "w", encoding="utf-8") as note:
            note.write(self._context.vouched(f"download {self._name}", told))
        os.replace(staged, self._note())
        self._noted = self._sure


def _locked(opened: BinaryIO) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return os.fstat(opened.fileno()).st_nlink > 0  # else whoever held it has removed it meanwhile
