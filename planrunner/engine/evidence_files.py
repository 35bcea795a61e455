"""Files as evidence of a gate: none outside the working directory is read, whatever path a value came to."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, BinaryIO

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.beneath import Beneath, steps

Json = Any
Record = dict[str, Json]

SHOWN = 8_000
"""Characters of a file or a diff that are kept to be shown."""

LARGEST = 64 * 1024 * 1024
"""Bytes of a report or a document that are read to be checked."""


class Unfit(Exception):
    """What was looked for is not there, cannot be read or is refused: the message says why, ``rule`` which rule refuses
    it."""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


def require_inside(directory: str, path: str) -> None:
    """Raises Unfit for a path, or a pattern of paths, that leads out of the directory by its words alone."""
    try:
        steps(directory, path)
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None


def file_record(directory: str, name: str) -> Record:
    """The record of a file: its digest, its size, and the start of its text. Raises Unfit and OSError."""
    digest, size, start = hashlib.sha256(), 0, b""
    with _opened(directory, name) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            if len(start) < 4 * SHOWN:
                start += piece[: 4 * SHOWN]
    text = "" if b"\0" in start else start.decode("utf-8", "replace")[:SHOWN]
    return {"kind": "file", "name": name, "digest": f"sha256:{digest.hexdigest()}", "size": size, "text": text}


def _opened(directory: str, path: str) -> BinaryIO:
    """A regular file below the directory, links followed as long as they stay inside: a pipe or a device may never come
    to its end."""
    try:
        with Beneath(directory) as tree:
            handle = tree.open_to_read(path)
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unfit("is no regular file")
    return os.fdopen(handle, "rb")


def read(directory: str, path: str) -> bytes:
    """The content of a file that is to be checked. Raises Unfit and OSError."""
    with _opened(directory, path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unfit(f"is larger than {LARGEST >> 20} MiB")
    return data


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
