"""Connections of an asynchronous client, held to the same rules as those of ``transport.py``."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import httpcore2
import httpx2

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.guard import Endpoint, Guard
from planrunner.capabilities.http.origins import REDIRECT_BODY, keep_to_origin
from planrunner.capabilities.http.transport import Result
from planrunner.capabilities.http.watch import SLICE, Watch


class AsyncGuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport without proxy, unix sockets and environment, whose pool connects through ``AsyncGuardedBackend``."""

    def __init__(self, guard: Guard, watch: Watch, tls: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls, max_keepalive_connections=20, network_backend=AsyncGuardedBackend(guard, watch)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        keep_to_origin(request)
        response = await super().handle_async_request(request)
        if response.has_redirect_location and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = AsyncFirstBytes(response.stream)
        return response


class AsyncFirstBytes(httpx2.AsyncByteStream):
    """The beginning of the body of a redirect."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            yield part
            size += len(part)
            if size > REDIRECT_BODY:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


class AsyncGuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections where the guard admits them."""

    def __init__(self, guard: Guard, watch: Watch) -> None:
        self._guard = guard
        self._watch = watch
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        until = time.monotonic() + self._watch.left(timeout)
        error: Exception = httpcore2.ConnectError(f"{host} has no address")
        for endpoint in await self._admit(host, port, timeout):
            try:
                stream = await watched(self._watch, partial(self._connect, endpoint, port, until))
            except httpcore2.ConnectError as failed:
                error = failed
            else:
                return AsyncWatchedStream(stream, self._watch)
        raise error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise Failure(f"refused to connect to the unix socket {path}", "policy", rule="network.socket")

    async def sleep(self, seconds: float) -> None:
        await watched(self._watch, lambda: anyio.sleep(seconds))

    async def _admit(self, host: str, port: int, timeout: float | None) -> list[Endpoint]:
        async def look() -> list[Endpoint]:
            with anyio.fail_after(_finite(self._watch.left(timeout))):
                return await anyio.to_thread.run_sync(self._guard.admit, host, port, abandon_on_cancel=True)

        try:
            return await watched(self._watch, look)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} was not found in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} was not found: {error.strerror or error}") from None

    async def _connect(self, endpoint: Endpoint, port: int, until: float) -> httpcore2.AsyncNetworkStream:
        left = _finite(max(0.0, until - time.monotonic()))
        return await self._sockets.connect_tcp(str(endpoint.address[0]), port, timeout=left)


class AsyncWatchedStream(httpcore2.AsyncNetworkStream):
    """A connection whose waits end with the attempt."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = _finite(self._watch.left(timeout))
        return await watched(self._watch, lambda: self._stream.read(max_bytes, left))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = _finite(self._watch.left(timeout))
        await watched(self._watch, lambda: self._stream.write(buffer, left))

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        left = _finite(self._watch.left(timeout))
        inner = await watched(self._watch, lambda: self._stream.start_tls(ssl_context, server_hostname, left))
        return AsyncWatchedStream(inner, self._watch)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def watched(watch: Watch, act: Callable[[], Awaitable[Result]]) -> Result:
    """Await ``act()``; give it up, and raise what the watch says, when there is no point in waiting any longer."""
    watch.check()
    stopped: list[Failure] = []
    failed: list[Exception] = []
    results: list[Result] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_look, watch, group.cancel_scope, stopped)
        try:
            results.append(await act())
        except Exception as error:  # carried over the group, which would wrap it
            failed.append(error)
        group.cancel_scope.cancel()
    if results:
        return results[0]
    raise (stopped or failed)[0]


async def _look(watch: Watch, scope: anyio.CancelScope, stopped: list[Failure]) -> None:
    while True:
        await anyio.sleep(SLICE)
        try:
            watch.check()
        except Failure as failure:
            stopped.append(failure)
            scope.cancel()
            return


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
