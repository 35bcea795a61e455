"""One request to its answer, sent over a guarded client."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.answer import Received, answer_of
from planrunner.capabilities.http.client import SLICE, client, refusal
from planrunner.capabilities.http.inputs import Answer
from planrunner.capabilities.http.request import Ask


def passing(ask: Ask, failure: Failure, sent: bool = True, wait: float | None = None) -> Failure:
    """A failure that may pass, with what another attempt goes by. ``sent`` is False where nothing can have reached the
    other side; ``wait`` is how many seconds it asked to be left alone."""
    retry = ask.retry if ask.repeatable or not sent else {}
    more = ""
    if retry and wait is not None and wait > retry["max_delay"]:
        more, retry = f"; it asks for a pause of {wait:.0f} s, longer than `max_delay`", {}
    return Failure(f"{failure}{more}", "transient", failure.outputs, retry_after=wait, retry=retry)


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


def send(context: Context, ask: Ask) -> Answer:
    """Send the request. Raises Failure."""
    with opened(context, ask) as connected:
        return send_with(context, ask, connected)


def opened(context: Context, ask: Ask) -> httpx2.Client:
    """A client for this request and others like it."""
    return client(context, timeout=ask.timeout, follow_redirects=ask.follow)


def send_with(context: Context, ask: Ask, connected: httpx2.Client) -> Answer:
    """``send`` over a client that is there already."""
    started = time.monotonic()
    received = Received(context, ask.limit, ask.inline)
    try:
        with answered(ask, connected) as response:
            received.take(response)
            answer = judged(context, ask, response, received, time.monotonic() - started)
    finally:
        received.close()
    context.log.write(f"{ask.shown}: {answer.status}, {answer.size} bytes, {answer.elapsed} s\n".encode(), "stderr")
    return answer


def judged(context: Context, ask: Ask, response: httpx2.Response, received: Received, elapsed: float = 0.0) -> Answer:
    """``answer_of`` whose transient failures tell how long the other side wants to be left alone."""
    try:
        return answer_of(context, ask, response, received, round(elapsed, 3))
    except Failure as failure:
        if failure.failure != "transient":
            raise
        raise passing(ask, failure, wait=retry_after(response.headers.get("retry-after", ""))) from None


@contextmanager
def answered(ask: Ask, connected: httpx2.Client, more: Mapping[str, str] | None = None) -> Iterator[httpx2.Response]:
    """The beginning of an answer, to be read while the block lasts; ``more`` are further headers.

    What goes wrong, also in the block, is raised as Failure.
    """
    with ExitStack() as files:
        arguments = ask.content.arguments(files)
        headers = {**arguments.pop("headers", {}), **ask.headers, **ask.credentials.headers, **(more or {})}
        request = connected.build_request(ask.method, ask.url, headers=headers, **arguments)
        try:
            response = connected.send(request, stream=True)
            try:
                yield response
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _classified(ask, request, error) from None


def _classified(ask: Ask, first: httpx2.Request, error: Exception) -> Failure:
    """The failure that an error of the library stands for. Where the request that went wrong is not the first one, that
    one was answered, by a redirect: it took effect."""
    if failure := refusal(error):
        return failure
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
    said = ask.credentials.masked(f"{ask.shown}: {kind}: {error}" if str(error) else f"{ask.shown}: {kind}")
    if isinstance(error, (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError)):
        if "certificate verify failed" in str(error).lower():
            return Failure(said)
        opening = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
        return passing(ask, Failure(said), sent=not opening or error.request is not first)
    return Failure(said)
