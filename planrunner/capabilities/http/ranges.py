"""The file of a download, read from the network: to its end, gone on with where it broke off."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.answering import Told, answer_of
from planrunner.capabilities.http.asking import Ask
from planrunner.capabilities.http.inputs import INLINE
from planrunner.capabilities.http.partial import Partial
from planrunner.capabilities.http.received import Received
from planrunner.capabilities.http.sending import answered
from planrunner.capabilities.http.trying import Passing, rest, retry_after

_PROGRESS = 1 << 16
"""Bytes after which a connection that breaks off does not count as a try."""


class Wanted(NamedTuple):
    """What has to come out: digest and size, if they are known, and the size it may have at most."""

    sha256: str
    size: int | None
    limit: int

    def fault(self, partial: Partial) -> str:
        """What is wrong with a file that is complete, or an empty string."""
        if self.size is not None and partial.size != self.size:
            return f"the file has {partial.size} bytes, expected {self.size}"
        if self.sha256 and (found := partial.digest()) != self.sha256:
            return f"the file has the SHA-256 {found}, expected {self.sha256}"
        return ""


def read_to_end(context: Context, ask: Ask, wanted: Wanted, partial: Partial, connected: httpx2.Client) -> None:
    """Read the file. A connection that breaks off after a good part is taken up again at once; otherwise raises
    Passing where another try may help, and Failure."""
    while True:
        before = partial.size
        try:
            if _read(context, ask, wanted, partial, connected):
                return
            if partial.size > before:
                continue
            raise Passing(Failure(f"{ask.shown}: nothing of the rest came", "transient"))
        except Passing as trouble:
            if partial.size < before + _PROGRESS or not _resumable(wanted, partial):
                raise
            context.log.write(f"{trouble.failure}; going on after {partial.size} bytes\n".encode(), "stderr")
        rest(context, 0.1)


def _resumable(wanted: Wanted, partial: Partial) -> bool:
    return bool(partial.size and (partial.validator or wanted.sha256))


def _read(context: Context, ask: Ask, wanted: Wanted, partial: Partial, connected: httpx2.Client) -> bool:
    """Read as much as one answer gives; tells whether that was the rest, of which a server may send a part."""
    have = partial.size if _resumable(wanted, partial) else 0
    more = {"range": f"bytes={have}-"} if have else {}
    if have and partial.validator:
        more["if-range"] = partial.validator
    with answered(ask, connected, more) as response:
        if response.status_code == 416 and have:
            if total_of(response.headers) == have:
                partial.resumed = have
                return True
            partial.begin("")
            raise Passing(Failure(f"{ask.shown}: there is nothing after {have} bytes", "transient"), wait=0.0)
        if response.status_code == 206 and have and _is_other(response, partial):
            partial.begin("")
            raise Passing(Failure(f"{ask.shown}: the file is another one now", "transient"), wait=0.0)
        if response.status_code == 206 and have and _start(response) == have:
            partial.resumed = partial.resumed or have
        elif response.status_code == 206 or not ask.expected.good(response.status_code):
            _refuse(context, ask, response)
        else:
            partial.begin(validator_of(response.headers))
        _check_announced(ask, wanted, response, partial.size)
        for part in response.iter_raw():
            if partial.size + len(part) > wanted.limit:
                raise Failure(f"{ask.shown}: the file is larger than `max_bytes`, which is {wanted.limit}")
            partial.add(part)
        return response.status_code != 206 or partial.size >= total_of(response.headers)


def _check_announced(ask: Ask, wanted: Wanted, response: httpx2.Response, have: int) -> None:
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return
    whole = have + int(length)
    if whole > wanted.limit:
        raise Failure(f"{ask.shown}: the file has {whole} bytes, more than `max_bytes`, which is {wanted.limit}")
    if wanted.size is not None and whole != wanted.size and not have:
        raise Failure(f"{ask.shown}: the file has {whole} bytes, expected {wanted.size}")


def _refuse(context: Context, ask: Ask, response: httpx2.Response) -> None:
    """Raise the failure of an answer that is not the file."""
    received = Received(context, INLINE, INLINE)
    nothing = ask._replace(expected=ask.expected._replace(ranges=()))
    try:
        received.take(response)
        answer_of(context, nothing, response, received, Told(1, 0.0))
    except Failure as failure:
        if failure.failure != "transient":
            raise
        raise Passing(failure, wait=retry_after(response.headers.get("retry-after", ""))) from None
    finally:
        received.close()


def validator_of(headers: Any) -> str:
    """What tells by a range request whether the file is still the same; empty where nothing does."""
    etag = str(headers.get("etag", "")).strip()
    if etag.startswith('"'):
        return etag
    modified = str(headers.get("last-modified", "")).strip()
    return "" if etag or _is_fresh(modified, str(headers.get("date", ""))) else modified


def _is_fresh(modified: str, sent: str) -> bool:
    """Whether the file was changed in the second in which it was sent: it may have been once more since."""
    try:
        return (parsedate_to_datetime(sent) - parsedate_to_datetime(modified)).total_seconds() < 1
    except (TypeError, ValueError, OverflowError):
        return False


def _is_other(response: httpx2.Response, partial: Partial) -> bool:
    """Whether a part belongs to another file than the one begun, though the server was asked not to send such a one."""
    validator = validator_of(response.headers)
    return bool(validator and partial.validator and validator != partial.validator)


def _start(response: httpx2.Response) -> int:
    """Where the bytes of a partial answer begin; -1 where it does not say."""
    unit, _, span = response.headers.get("content-range", "").partition(" ")
    first = span.partition("-")[0].strip()
    return int(first) if unit == "bytes" and first.isascii() and first.isdigit() else -1


def total_of(headers: Any) -> int:
    """How long the file is of which a part came; -1 where that is not told."""
    total = str(headers.get("content-range", "")).rpartition("/")[2].strip()
    return int(total) if total.isascii() and total.isdigit() else -1
