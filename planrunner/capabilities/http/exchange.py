"""One request to its answer: sent over a guarded client, and again after faults that may pass."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.answer import Received, Told, answer_of
from planrunner.capabilities.http.client import SLICE, client, refusal
from planrunner.capabilities.http.inputs import Answer
from planrunner.capabilities.http.request import Ask
from planrunner.capabilities.outputs import may_call

Result = TypeVar("Result")


class Passing(Exception):
    """A try that went wrong in a way that may pass. ``sent`` is False where nothing can have reached the other side;
    ``wait`` is how many seconds it asked to be left alone."""

    def __init__(self, failure: Failure, sent: bool = True, wait: float | None = None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.sent = sent
        self.wait = wait


def persist(context: Context, ask: Ask, act: Callable[[int], Result]) -> Result:
    """Call ``act`` with the number of the try until it succeeds or the tries are used up. Raises its Failure."""
    started = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            return act(tries)
        except Passing as trouble:
            if tries > ask.patience.times or not (ask.repeatable or not trouble.sent) or not may_call(context):
                raise trouble.failure from None
            wait = _pause(ask, tries, trouble.wait)
            if too_long := _too_long(context, ask, wait, time.monotonic() - started):
                raise _told(trouble.failure, f"; it asks for a pause of {wait:.0f} s, {too_long}") from None
            _log(context, f"{trouble.failure}; trying again in {wait:.1f} s ({tries} of {ask.patience.times})")
        rest(context, wait)


def rest(context: Context, seconds: float) -> None:
    """Let time pass. Raises Failure when the attempt is stopped."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if context.cancelled():
            raise Failure("the request was stopped", "interrupted")
        time.sleep(min(SLICE, left))


def retry_after(value: str) -> float | None:
    """Seconds out of a `Retry-After` header, which holds seconds or a date; None where it holds neither."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - time.time())


def _pause(ask: Ask, tries: int, wanted: float | None) -> float:
    if wanted is not None:
        return wanted
    longest = min(ask.patience.delay * float(2 ** (tries - 1)), ask.patience.max_delay)
    return longest * (0.5 + random.random() / 2)


def _too_long(context: Context, ask: Ask, wait: float, spent: float) -> str:
    """Why waiting that long is pointless."""
    total = (ask.timeout or {}).get("total")
    limits = [each for each in (context.call.timeout, total) if each is not None]
    if limits and spent + wait >= min(limits):
        return "longer than the time that is left"
    return "longer than `max_delay`" if wait > ask.patience.max_delay else ""


def _told(failure: Failure, more: str) -> Failure:
    return Failure(f"{failure}{more}", failure.failure, failure.outputs, rule=failure.rule)


def _log(context: Context, text: Any) -> None:
    context.log.write(f"{text}\n".encode(), "stderr")


def send(context: Context, ask: Ask) -> Answer:
    """Send the request, again where that helps. Raises Failure."""
    with opened(context, ask) as connected:
        return send_with(context, ask, connected)


def opened(context: Context, ask: Ask) -> httpx2.Client:
    """A client for this request and others like it."""
    return client(context, timeout=ask.timeout, follow_redirects=ask.follow)


def send_with(context: Context, ask: Ask, connected: httpx2.Client) -> Answer:
    """``send`` over a client that is there already."""
    started = time.monotonic()

    def once(tries: int) -> Answer:
        received = Received(context, ask.limit, ask.inline)
        try:
            with answered(ask, connected) as response:
                received.take(response)
                told = Told(tries, round(time.monotonic() - started, 3))
                return _good(context, ask, response, received, told)
        finally:
            received.close()

    answer = persist(context, ask, once)
    context.log.write(f"{ask.shown}: {answer.status}, {answer.size} bytes, {answer.elapsed} s\n".encode(), "stderr")
    return answer


def _good(context: Context, ask: Ask, response: httpx2.Response, received: Received, told: Told) -> Answer:
    try:
        return answer_of(context, ask, response, received, told)
    except Failure as failure:
        if failure.failure != "transient":
            raise
        raise Passing(failure, wait=retry_after(response.headers.get("retry-after", ""))) from None


@contextmanager
def answered(ask: Ask, connected: httpx2.Client, more: Mapping[str, str] | None = None) -> Iterator[httpx2.Response]:
    """The beginning of an answer, to be read while the block lasts; ``more`` are further headers.

    What goes wrong, also in the block, is raised as Failure, or as Passing where another try may help.
    """
    with ExitStack() as files:
        request = _request(ask, connected, more, files)
        try:
            response = connected.send(request, stream=True)
            try:
                yield response
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _classified(ask, request, error) from None


def _request(ask: Ask, connected: httpx2.Client, more: Mapping[str, str] | None, files: ExitStack) -> httpx2.Request:
    arguments = ask.content.arguments(files)
    headers = {**arguments.pop("headers", {}), **ask.headers, **ask.credentials.headers, **(more or {})}
    return connected.build_request(ask.method, ask.url, headers=headers, **arguments)


def _classified(ask: Ask, first: httpx2.Request, error: Exception) -> Exception:
    """The failure that an error of the library stands for. Where the request that went wrong is not the first one, that
    one was answered, by a redirect: it took effect."""
    if failure := refusal(error):
        return failure
    said = ask.credentials.masked(f"{ask.shown}: {_words(error)}")
    if isinstance(error, (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError)):
        if _untrusted(error):
            return Failure(said)
        opening = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
        return Passing(Failure(said, "transient"), sent=not opening or error.request is not first)
    return Failure(said)


def _words(error: Exception) -> str:
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
    return f"{kind}: {error}" if str(error) else kind


def _untrusted(error: Exception) -> bool:
    """Whether the certificate was the reason: another try would not change it."""
    return "certificate verify failed" in str(error).lower()
