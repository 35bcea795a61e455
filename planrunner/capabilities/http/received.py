"""The body of an answer: unpacked and counted piece by piece, in memory while it is small and in a file beyond that."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.naming import artifact_name
from planrunner.unnamed import unnamed

_STEP = 1 << 16


class Received:
    """The bytes of one answer; the file they may lie in has no name, since nobody has looked through it for secrets."""

    __slots__ = ("_context", "_digest", "_file", "_head", "_inline", "_limit", "size")

    def __init__(self, context: Context, limit: int, inline: int) -> None:
        self._context = context
        self._limit = limit
        self._inline = inline
        self._digest = hashlib.sha256()
        self._head = bytearray()
        self._file: IO[bytes] | None = None
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def small(self) -> bool:
        return self.size <= self._inline

    def take(self, response: httpx2.Response) -> None:
        """Read the answer to its end. Raises Failure for one that is larger than the limit or cannot be unpacked."""
        announced = response.headers.get("content-length", "")
        has_body = response.request.method != "HEAD"
        if has_body and announced.isascii() and announced.isdigit() and int(announced) > self._limit:
            raise self._too_large()
        for part in unpacked(response):
            self._add(part)

    def all(self) -> bytes:
        """Everything, in memory."""
        if self._file is None:
            return bytes(self._head)
        self._file.seek(0)
        return self._file.read()

    def keep(self, name: str, type: str) -> dict[str, object]:
        """Keep it as an artifact; gives the record."""
        if self._file is None:
            return self._context.keep(bytes(self._head), name, type)
        return self._context.keep_open(self._file, name, type)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self._limit:
            raise self._too_large()
        self._digest.update(part)
        if self._file is None and self.size <= self._inline:
            self._head += part
            return
        if self._file is None:
            folder = self._context.cache("http") if self._context.services is not None else tempfile.gettempdir()
            self._file = os.fdopen(unnamed(folder), "r+b")
            self._file.write(self._head)
        self._file.write(part)

    def _too_large(self) -> Failure:
        return Failure(f"the answer is larger than `max_bytes`, which is {self._limit}")


def unpacked(response: httpx2.Response) -> Iterator[bytes]:
    """The body in pieces of bounded size, however much a packed piece holds."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        yield from response.iter_raw()
    elif packing in ("gzip", "x-gzip", "deflate"):
        yield from _inflated(response.iter_raw(), packing)
    else:
        raise Failure(f"the answer is packed as `{packing[:40]}`, which was not asked for")


def _inflated(parts: Iterator[bytes], packing: str) -> Iterator[bytes]:
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its first bytes
    started = False
    for part in parts:
        while part:
            if unpack.eof:  # another member follows
                unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
            try:
                piece = unpack.decompress(part, _STEP)
            except zlib.error as error:
                if started or packing != "deflate":
                    raise Failure(f"the answer cannot be unpacked: {error}", "transient") from None
                unpack, packing = zlib.decompressobj(-zlib.MAX_WBITS), ""  # some servers leave the frame out
                continue
            started = True
            if piece:
                yield piece
            part = unpack.unconsumed_tail or unpack.unused_data
    yield from _rest(unpack, started)


def _rest(unpack: zlib._Decompress, started: bool) -> Iterator[bytes]:
    while started and not unpack.eof and (piece := unpack.decompress(unpack.unconsumed_tail, _STEP)):
        yield piece
    if started and not unpack.eof:
        raise Failure("the answer ends in the middle of what is packed", "transient")


def name_of(path: str) -> str:
    """A name for an artifact out of the path of an address."""
    return artifact_name(os.path.basename(path.rstrip("/"))[:100], "answer")
