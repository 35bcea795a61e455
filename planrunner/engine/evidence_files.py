"""Files as evidence of a gate: none outside the working directory is read, whatever path a value came to."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, BinaryIO

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.beneath import Beneath, steps
from planrunner.capabilities.files.scope import Scope

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


def require_readable(directory: str, path: str, scope: Scope | None) -> None:
    """Raises Unfit for a path, from the directory on, that a policy does not let be read; ``..`` may lead out."""
    try:
        if scope is not None:
            scope.require("read", (os.path.relpath(os.path.join(directory, path), directory),))
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None


def file_record(directory: str, name: str, scope: Scope | None = None) -> Record:
    """The record of a file: its digest, its size, and the start of its text. Raises Unfit, also where the file is
    outside of what a policy lets be read, and OSError."""
    digest, size, start = hashlib.sha256(), 0, b""
    with _opened(directory, name, scope) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            if len(start) < 4 * SHOWN:
                start += piece[: 4 * SHOWN]
    text = "" if b"\0" in start else start.decode("utf-8", "replace")[:SHOWN]
    return {"kind": "file", "name": name, "digest": f"sha256:{digest.hexdigest()}", "size": size, "text": text}


def _opened(directory: str, path: str, scope: Scope | None) -> BinaryIO:
    """A regular file below the directory, links followed as long as they stay inside: a pipe or a device may never come
    to its end."""
    try:
        with Beneath(directory, scope=scope) as tree:
            handle = tree.open_to_read(path)
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unfit("is no regular file")
    return os.fdopen(handle, "rb")


def read(directory: str, path: str, scope: Scope | None = None) -> bytes:
    """The content of a file that is to be checked. Raises Unfit and OSError."""
    with _opened(directory, path, scope) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unfit(f"is larger than {LARGEST >> 20} MiB")
    return data


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
