"""A copy in the store of artifacts is read again before it counts: no secret is kept in it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.redaction import Redactor


_LOOKED_AT = 1 << 16
"""Bytes at the beginning of a file that tell whether it is text."""


class Found(NamedTuple):
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
    """Write a file anew without the secrets in it; gives its SHA-256 and its size in bytes."""
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
