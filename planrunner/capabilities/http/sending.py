"""One request from asking to its answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.answering import Told, answer_of
from planrunner.capabilities.http.asking import Ask
from planrunner.capabilities.http.client import client, refusal
from planrunner.capabilities.http.inputs import Answer
from planrunner.capabilities.http.received import Received
from planrunner.capabilities.http.trying import Passing, persist, retry_after


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
