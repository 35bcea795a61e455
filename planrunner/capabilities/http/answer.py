"""An answer: received within bounds, read to outputs, and held against what the plan expects."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.inputs import artifact_name
from planrunner.capabilities.http.headers import is_charset, is_secret
from planrunner.capabilities.http.inputs import Answer
from planrunner.capabilities.http.request import PASSING, Ask
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.soundness import not_json
from planrunner.fileio import unnamed

_STEP = 1 << 16


class Received:
    """The bytes of one answer; the file they may lie in has no name, since it is not searched for secrets."""

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
        return
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise Failure(f"the answer is packed as `{packing[:40]}`, which was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its first bytes
    started = False
    for part in response.iter_raw():
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
    while started and not unpack.eof and (piece := unpack.decompress(unpack.unconsumed_tail, _STEP)):
        yield piece
    if started and not unpack.eof:
        raise Failure("the answer ends in the middle of what is packed", "transient")


def name_of(path: str) -> str:
    """A name for an artifact out of the path of an address."""
    return artifact_name(os.path.basename(path.rstrip("/"))[:100], "answer")


_NO_DATA = object()


class Parsed(NamedTuple):
    """Data that a journal can hold, or ``_NO_DATA`` and why what was looked at gives none."""

    data: Any = _NO_DATA
    problem: str = ""


def answer_of(context: Context, ask: Ask, response: httpx2.Response, received: Received, elapsed: float) -> Answer:
    """The outputs. Raises Failure, with them, for an answer that is not expected."""
    text = _text(response, received)
    parsed = _parsed(ask, response, received)
    artifact = None
    lasting = ask.expected.good(response.status_code) or response.status_code not in PASSING
    if received.size and lasting and (ask.save or text is None or not received.small):
        artifact = received.keep(ask.save or name_of(response.url.path), _type(response))
    hide = ask.credentials.masked
    inline = received.small and not ask.save
    url = response.url.copy_with(username=None, password=None, fragment=None)
    first = httpx2.URL(ask.url)
    same = (first.scheme, first.host, first.port) == (url.scheme, url.host, url.port)
    answer = Answer(
        status=response.status_code,
        headers={name: hide(value) for name, value in public_headers(response).items()},
        json=masked(parsed.data, hide) if inline and parsed.data is not _NO_DATA else None,
        text=hide(text) if inline and text is not None else "",
        url=hide(str(url if same else url.copy_with(query=None))),
        elapsed=elapsed,
        attempts=context.call.attempt,
        size=received.size,
        sha256=received.sha256,
        artifact=artifact,
        json_problem=hide(parsed.problem) if inline and _is_json(response) else "",
    )
    _judge(ask, response, answer, parsed)
    return answer


def _judge(ask: Ask, response: httpx2.Response, answer: Answer, parsed: Parsed) -> None:
    if not ask.expected.good(answer.status):
        said = " ".join(answer.text.split())[:200]
        reason = f" {response.reason_phrase}" if response.reason_phrase else ""
        message = ask.credentials.masked(f"{ask.shown} answered {answer.status}{reason}{f': {said}' if said else ''}")
        raise Failure(message, "transient" if answer.status in PASSING else "logic", answer.brief())
    if ask.expected.schema is None or ask.method == "HEAD":
        return
    if parsed.data is _NO_DATA:
        why = ask.credentials.masked(f": {parsed.problem}") if answer.size else ", it is empty"
        raise Failure(f"{ask.shown}: the answer is not JSON{why}", "logic", answer.brief())
    if problems := faults(ask.expected.schema, parsed.data):
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        why = ask.credentials.masked("; ".join(problems[:5]) + more)
        raise Failure(f"{ask.shown}: the response does not match `expect_schema`: {why}", "logic", answer.brief())


def public_headers(response: httpx2.Response) -> dict[str, str]:
    """The headers of an answer in lower case, without those that carry secrets."""
    return {name.lower(): value for name, value in response.headers.items() if not is_secret(name)}


def masked(data: Any, hide: Any) -> Any:
    """JSON data with every text passed through ``hide``."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, list):
        return [masked(item, hide) for item in data]
    if isinstance(data, dict):
        return {hide(key): masked(value, hide) for key, value in data.items()}
    return data


def _text(response: httpx2.Response, received: Received) -> str | None:
    """The answer as text; empty where it is too large for that, None where it is not text."""
    if not received.small:
        return ""
    charset = response.charset_encoding or "utf-8"
    if not is_charset(charset):
        return received.all().decode("utf-8", "replace")
    try:
        return received.all().decode(charset)
    except UnicodeDecodeError:
        return None


def _parsed(ask: Ask, response: httpx2.Response, received: Received) -> Parsed:
    """The data of an answer that is JSON, or that the plan expects to be; nothing is looked for in any other."""
    wanted = ask.expected.schema is not None or (_is_json(response) and received.small and not ask.save)
    if not wanted or not received.size:
        return Parsed()
    content = received.all()
    try:
        data = json.loads(content, parse_constant=_refuse)
    except UnicodeDecodeError:
        return Parsed(problem="it is not UTF-8")
    except RecursionError:
        return Parsed(problem="it is nested too deeply")
    except ValueError as error:
        return Parsed(problem=str(error))
    problem = not_json({"json": data}, "answer")
    return Parsed(problem=problem) if problem else Parsed(data)


def _is_json(response: httpx2.Response) -> bool:
    kind = _type(response)
    return kind == "application/json" or kind.endswith("+json")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
