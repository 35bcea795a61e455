"""The way of every request to a model and of its reply: counted, held to what may be spent, recorded, with the key.

A library is given a placeholder; the real key is put into the request here and removed from replies.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpx2

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.client import refusal
from planrunner.capabilities.http.exchange import retry_after
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.usage import Meter, Purse, Reservation, Tokens, Used, dollars, most_input
from planrunner.redaction import Redactor

LARGEST = 16 << 20
"""Bytes of a reply that are read."""

SHORTEST_KEY = 4
"""Characters of the shortest key that is taken out of a reply."""

NO_KEY = "no-key"
"""What a library gets to see instead of a key."""

_PERHAPS_DONE = frozenset({408, 499, 502, 504, *range(520, 528)})
"""Statuses of something between here and the model, which may have answered all the same."""

_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "openai-organization", "openai-project")


class Exchange:
    """One request to a model and its reply, as they went over the wire."""

    __slots__ = (
        *("_key", "_meter", "_purse", "assumed", "reservation", "is_event_stream", "is_whole", "max_tokens", "model"),
        *("redactor", "refused", "reply", "request", "status", "used", "was_sent"),
    )

    def __init__(self, model: Model, key: str, purse: Purse, max_tokens: int) -> None:
        self._key = key
        self._meter = Meter(Tokens(0, 0))
        self._purse = purse
        self.redactor = Redactor()
        if len(key) >= SHORTEST_KEY:
            self.redactor.add("", key.encode())
        self.reservation: Reservation | None = None
        self.is_event_stream = self.is_whole = self.was_sent = False
        self.max_tokens = max_tokens
        self.model = model
        self.refused: Failure | None = None
        self.reply = bytearray()
        self.request = b""
        self.status = 0
        self.used: Used | None = None
        self.assumed: Used | None = None
        """What counts as used where the reply was lost."""

    def begin(self, body: bytes) -> None:
        """Set the worst case of the request aside. Raises Failure where it may not be sent."""
        if self.reservation is not None:
            self.refused = Failure("the library tried to send the request a second time", "transient")
            raise self.refused
        most = Tokens(most_input(len(body)), self.max_tokens)
        self.request = self.redactor.bytes(body)
        self._meter = Meter(most)
        try:
            self.reservation = self._purse.take(self.model, most)
        except Failure as failure:
            self.refused = failure
            raise

    def take(self, data: bytes) -> bytes:
        """A piece of the reply as the library may see it: a whole document, or whole lines of events."""
        data = self.redactor.bytes(data)
        if len(self.reply) + len(data) > LARGEST:
            self._meter.odd = f"the reply is larger than {LARGEST >> 20} MiB"
            self.refused = Failure(self._meter.odd, "transient")
            raise self.refused
        self.reply += data
        if not self.is_event_stream:
            return self._meter.cleaned(data)
        lines = data.splitlines(keepends=True)
        return b"".join(self._line(line) if line.startswith(b"data:") else line for line in lines)

    def _line(self, line: bytes) -> bytes:
        text = line[5:].strip()
        if text == b"[DONE]" or b'"message_stop"' in text:
            self.is_whole = True  # a library may read no further
        cleaned = self._meter.cleaned(text) if text.startswith(b"{") else text
        return line if cleaned is text else b"data: " + cleaned + line[len(line.rstrip(b"\r\n")) :]

    def end(self, failed: bool) -> None:
        """Settle what the request used. A request that the provider answered with an error, or that never left, used
        nothing; one that failed otherwise, with its reply lost, kept back on the way or not to be read, counts as the
        worst it can have used."""
        if self.reservation is None:
            self.used = Used(Tokens(0, 0), 0.0)
            return
        reservation, self.reservation = self.reservation, None
        if not self.was_sent or (self.is_whole and self.status >= 300 and self.status not in _PERHAPS_DONE):
            self.used = reservation.settle(Tokens(0, 0))
            return
        tokens = self._meter.tokens() if self.is_whole and self.status < 300 else None
        if tokens is None and failed and not self.odd:
            self.assumed = reservation.lost()
        else:
            self.used = reservation.settle(tokens)

    @property
    def odd(self) -> str:
        return self._meter.odd


_CURRENT: ContextVar[Exchange] = ContextVar("exchange")


@contextmanager
def exchanged(exchange: Exchange) -> Iterator[Exchange]:
    """What is sent in here belongs to the exchange, which is settled at the end."""
    token = _CURRENT.set(exchange)
    failed = True
    try:
        yield exchange
        failed = False
    finally:
        _CURRENT.reset(token)
        exchange.end(failed)


class Wire(httpx2.AsyncBaseTransport):
    """Sends the requests of a library through the guarded client."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _CURRENT.get()
        exchange.begin(await request.aread())
        self._authorise(request, exchange)
        try:
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise
        except Failure as failure:
            exchange.refused, exchange.was_sent = failure, failure.failure != "policy"
            raise
        except BaseException:
            exchange.was_sent = True
            raise
        exchange.was_sent = True
        exchange.status = response.status_code
        kind = response.headers.get("content-type", "")
        exchange.is_event_stream = response.status_code < 400 and "event-stream" in kind
        return await self._answer(exchange, request, response, kind)

    @staticmethod
    def _authorise(request: httpx2.Request, exchange: Exchange) -> None:
        for name in _CREDENTIALS:
            if name in request.headers:
                del request.headers[name]
        key, provider = exchange._key, exchange.model.provider
        if key and provider == "anthropic":
            request.headers["x-api-key"] = key
        elif key and provider == "google":
            request.headers["x-goog-api-key"] = key
        elif key:
            request.headers["authorization"] = f"Bearer {key}"

    @staticmethod
    async def _answer(
        exchange: Exchange, request: httpx2.Request, response: httpx2.Response, kind: str
    ) -> httpx2.Response:
        headers = {"content-type": kind}
        if "retry-after" in response.headers:
            headers["retry-after"] = response.headers["retry-after"]
        if exchange.is_event_stream:
            stream = _Events(response, exchange)
            return httpx2.Response(response.status_code, headers=headers, stream=stream, request=request)
        try:
            content = exchange.take(await _whole(response, exchange))
        finally:
            await response.aclose()
        exchange.is_whole = True
        return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    async def aclose(self) -> None:
        await self._client.aclose()


async def _whole(response: httpx2.Response, exchange: Exchange) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > LARGEST:
            exchange.take(bytes(body))
    return bytes(body)


class _Events(httpx2.AsyncByteStream):
    """The events of a reply, line by line."""

    def __init__(self, response: httpx2.Response, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for piece in self._response.aiter_bytes():
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > LARGEST:
                self._exchange.take(rest)
            if newline:
                yield self._exchange.take(lines + newline)
        if rest:
            yield self._exchange.take(rest)
        self._exchange.is_whole = True

    async def aclose(self) -> None:
        await self._response.aclose()


Json = Any

_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be gone the next time."""

_SHOWN = 400


def failure_of(error: BaseException, exchange: Exchange) -> Failure:
    """The failure that an error of the library stands for; it never holds the key."""
    failure = exchange.refused or refusal(error)
    if failure is None:
        failure = _failure(error, exchange)
    said = _with_assumed(exchange.redactor.text(str(failure)), exchange)
    return Failure(said, failure.failure, failure.outputs, rule=failure.rule, retry_after=failure.retry_after)


def _with_assumed(said: str, exchange: Exchange) -> str:
    """The message, with the cost that is assumed of a request whose reply was lost."""
    if exchange.assumed is None or not exchange.assumed.cost:
        return said
    return f"{said.rstrip('.')}; {dollars(exchange.assumed.cost)} assumed for it"


def _failure(error: BaseException, exchange: Exchange) -> Failure:
    model = exchange.model
    name = f"`{model.name}` ({model.provider} {model.model})"
    if not exchange.request:
        return Failure(f"{name} cannot be asked this: {_short(error)}")
    if isinstance(error, TimeoutError):
        return Failure(f"{name} gave no answer within {model.timeout:g} s", "transient")
    status = exchange.status
    if status >= 300:
        passing = status in _PASSING or status >= 500
        later = retry_after((getattr(error, "headers", None) or {}).get("retry-after", "")) if passing else None
        more = "" if later is None else f"; it asks to wait {later:g} s"
        try:
            text = _message(json.loads(bytes(exchange.reply)))[:_SHOWN]
        except (ValueError, RecursionError):
            text = ""
        said = f"{name} answered {status}{text and f': {text}'}{more}"
        return Failure(said, "transient" if passing else "logic", retry_after=later)
    if not status:
        reached = "broke the connection" if exchange.was_sent else "cannot be reached"
        silent = exchange.model.own_address and not exchange.was_sent
        where = "; no server answers at its `base_url` in planrunner.yaml" if silent else ""
        return Failure(f"{name} {reached}: {_cause(error)}{where}", "transient")
    if not exchange.is_whole:
        return Failure(f"{name} broke off its reply: {_cause(error)}", "transient")
    return Failure(f"{name} sent a reply that cannot be read: {_short(error)}", "transient")


def _message(body: Json) -> str:
    if isinstance(body, dict):
        for name in ("error", "message", "detail"):
            if name in body:
                return _message(body[name])
    return body if isinstance(body, str) else ""


def _cause(error: BaseException) -> str:
    """The innermost of the errors that libraries wrap around each other: it says most."""
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        inner = error.__cause__ or error.__context__
        assert inner is not None
        if not str(inner):
            break
        error = inner
    return _short(error)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
