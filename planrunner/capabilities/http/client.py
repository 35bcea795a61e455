"""Clients for everything that speaks HTTP: the only way by which capabilities reach the network.

Every connection, also after a redirect, goes to an address that ``guard.py`` admitted; proxies out of the environment
are not looked at. A request that waits ends within a fraction of a second once the attempt is stopped.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import httpcore2
import httpx2
from anyio import to_thread

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.guard import Endpoint, Guard
from planrunner.capabilities.http.headers import REDIRECT_BODY, keep_to_origin
from planrunner.capabilities.outputs import count_call

SLICE = 0.1
"""Seconds that a connection waits at most before it looks whether to go on."""


class Watch:
    """Looked at by every connection of a client between waits; may be used from several threads."""

    __slots__ = ("_cancelled", "_until")

    def __init__(self, cancelled: Callable[[], bool], total: float | None = None) -> None:
        self._cancelled = cancelled
        self._until = None if total is None else time.monotonic() + total

    def check(self) -> None:
        """Raises Failure if waiting longer is pointless."""
        if self._cancelled():
            raise Failure("the request was stopped", "interrupted")
        if self._until is not None and time.monotonic() > self._until:
            raise Failure("the request took longer than its total time", "transient")

    def left(self, timeout: float | None) -> float:
        """Seconds until an operation that may take ``timeout`` has to be over; at most until the end of the total."""
        ends = [timeout] if timeout is not None else []
        if self._until is not None:
            ends.append(self._until - time.monotonic() + 0.001)
        return min(ends, default=float("inf"))


Result = TypeVar("Result")


class CountingClient(httpx2.Client):
    """A client that counts its requests as calls of the attempt; a redirect belongs to its request."""

    def __init__(self, context: Context, **options: Any) -> None:
        super().__init__(**options)
        self._context = context
        context.spend(calls=0)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        count_call(self._context)
        return super().send(request, **options)


class GuardedTransport(httpx2.HTTPTransport):
    """A transport without proxy, unix sockets and environment, whose pool connects through ``GuardedBackend``."""

    def __init__(self, guard: Guard, watch: Watch, tls: ssl.SSLContext) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=tls, max_keepalive_connections=20, network_backend=GuardedBackend(guard, watch)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        keep_to_origin(request)
        response = super().handle_request(request)
        if response.has_redirect_location and isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = FirstBytes(response.stream)
        return response


class FirstBytes(httpx2.SyncByteStream):
    """The beginning of a body: that of a redirect is read to its end before the next request, and may have none."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            yield part
            size += len(part)
            if size > REDIRECT_BODY:
                return

    def close(self) -> None:
        self._stream.close()


class GuardedBackend(httpcore2.NetworkBackend):
    """Opens connections where the guard admits them."""

    def __init__(self, guard: Guard, watch: Watch) -> None:
        self._guard = guard
        self._watch = watch

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        until = time.monotonic() + self._watch.left(timeout)
        error: Exception = httpcore2.ConnectError(f"{host} has no address")
        for endpoint in self._admit(host, port, until):
            try:
                return WatchedStream(self._connect(endpoint, until), self._watch)
            except OSError as failed:
                error = httpcore2.ConnectError(f"{host}:{port}: {failed.strerror or failed}")
        raise error

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        raise Failure(f"refused to connect to the unix socket {path}", rule="network.socket")

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._watch.check()
            time.sleep(min(SLICE, left))

    def _admit(self, host: str, port: int, until: float) -> list[Endpoint]:
        """Look up in a thread of its own: the system's resolver cannot be interrupted."""
        ended = threading.Event()
        endpoints: list[list[Endpoint]] = []
        failed: list[BaseException] = []

        def resolve() -> None:
            try:
                endpoints.append(self._guard.admit(host, port))
            except BaseException as error:
                failed.append(error)
            ended.set()

        threading.Thread(target=resolve, daemon=True, name="planrunner-lookup").start()
        while not ended.wait(SLICE):
            self._watch.check()
            if time.monotonic() > until:
                raise httpcore2.ConnectTimeout(f"{host} was not found in time")
        if failed and isinstance(failed[0], OSError):
            raise httpcore2.ConnectError(f"{host} was not found: {failed[0].strerror or failed[0]}")
        if failed:
            raise failed[0]
        return endpoints[0]

    def _connect(self, endpoint: Endpoint, until: float) -> socket.socket:
        opened = socket.socket(endpoint.family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            if (code := opened.connect_ex(endpoint.address)) not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
            waiting = select.poll()
            waiting.register(opened, select.POLLOUT)
            while not waiting.poll(int(1000 * SLICE)):
                self._watch.check()
                if time.monotonic() > until:
                    raise httpcore2.ConnectTimeout(f"{endpoint.address[0]} did not answer in time")
            if code := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            opened.close()
            raise
        return opened


class WatchedStream(httpcore2.NetworkStream):
    """A connection that waits in slices and looks at its watch between them."""

    def __init__(self, opened: socket.socket, watch: Watch) -> None:
        self._socket = opened
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._wait(lambda: self._socket.recv(max_bytes), timeout, httpcore2.ReadTimeout, httpcore2.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            sent = self._wait(partial(self._socket.send, rest), timeout, httpcore2.WriteTimeout, httpcore2.WriteError)
            rest = rest[sent:]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        try:
            wrapped = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._socket = wrapped
            self._wait(wrapped.do_handshake, timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return getattr(self._socket, "_sslobj", None)
        if info == "is_readable":
            if self._socket.fileno() < 0:
                return True
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN)
            return bool(waiting.poll(0))
        looks: dict[str, Callable[[], Any]] = {
            "client_addr": self._socket.getsockname,
            "server_addr": self._socket.getpeername,
            "socket": lambda: self._socket,
        }
        return looks[info]() if info in looks else None

    def _wait(
        self, act: Callable[[], Result], timeout: float | None, late: type[Exception], broken: type[Exception]
    ) -> Result:
        until = time.monotonic() + self._watch.left(timeout)
        while True:
            self._watch.check()
            left = until - time.monotonic()
            if left <= 0:
                raise late("no answer in time")
            self._socket.settimeout(min(SLICE, left))
            try:
                return act()
            except TimeoutError:
                continue
            except OSError as error:
                raise broken(str(error.strerror or error)) from error


class ThreadedTransport(httpx2.AsyncBaseTransport):
    """A transport for asynchronous clients that waits in threads; what is given up ends with its connection."""

    def __init__(self, transport: GuardedTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        response = await to_thread.run_sync(self._transport.handle_request, request, abandon_on_cancel=True)
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = ThreadedStream(response.stream)
        return response

    async def aclose(self) -> None:
        self._transport.close()


class ThreadedStream(httpx2.AsyncByteStream):
    """The body of a response, each piece awaited in a thread."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = iter(self._stream)
        while (piece := await to_thread.run_sync(next, pieces, None, abandon_on_cancel=True)) is not None:
            yield piece

    async def aclose(self) -> None:
        self._stream.close()


TIMEOUT: Mapping[str, float | None] = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
"""Seconds for the parts of a request; between two pieces of an answer `read` starts again."""

REDIRECTS = 10


def client(context: Context, *, timeout: Any = None, base_url: str = "", **options: Any) -> httpx2.Client:
    """A client for the time of one attempt; use it in a ``with`` statement.

    ``timeout`` is seconds for every part, a mapping of `connect`, `read`, `write`, `pool` and `total` (None: no limit),
    or None for the usual; `total` counts from now. ``options`` go to ``httpx2.Client``: headers, auth,
    follow_redirects … Its requests raise Failure (policy) for an address that is not allowed, Failure (budget) where
    the attempt has set aside no call for another, and ``httpx2.HTTPError``.
    """
    parts, total = _parts(timeout)
    transport = _transport(context, total)
    return CountingClient(
        context, transport=transport, timeout=httpx2.Timeout(**parts), base_url=base_url, **_options(options)
    )


def async_client(context: Context, *, timeout: Any = None, base_url: str = "", **options: Any) -> httpx2.AsyncClient:
    """The asynchronous counterpart of ``client``, for libraries that want one."""
    parts, total = _parts(timeout)
    transport = ThreadedTransport(_transport(context, total))
    return httpx2.AsyncClient(
        transport=transport, timeout=httpx2.Timeout(**parts), base_url=base_url, **_options(options)
    )


def refusal(error: BaseException) -> Failure | None:
    """The Failure inside an error that a library wrapped around it: a refused address, or the stop of the attempt."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, Failure):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _transport(context: Context, total: float | None) -> GuardedTransport:
    settings = context.settings("network")
    ca = str(settings.get("ca") or "")
    if ca not in _contexts:
        made = ssl.create_default_context()
        if ca:
            try:
                made.load_verify_locations(cafile=ca)
            except OSError as error:
                said = f"planrunner.yaml: `network.ca`: {ca}: {error.strerror or error}"
                raise Failure(said, rule="settings.network") from None
        _contexts[ca] = made
    return GuardedTransport(Guard(settings), Watch(context.cancelled, total), _contexts[ca])


def _parts(timeout: Any) -> tuple[dict[str, float | None], float | None]:
    if timeout is None:
        return dict(TIMEOUT), None
    if isinstance(timeout, (int, float)):
        return dict.fromkeys(TIMEOUT, float(timeout)), None
    given = dict(timeout) if not hasattr(timeout, "as_dict") else timeout.as_dict()
    total = given.pop("total", None)
    return {**TIMEOUT, **given}, total


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a client; those by which it would get around the guard are ours alone."""
    if ours := {"transport", "mounts", "proxy", "trust_env", "verify", "cert"} & options.keys():
        raise TypeError(f"the client sets {', '.join(sorted(ours))} itself")
    headers = {"accept-encoding": "gzip, deflate", "user-agent": f"planrunner/{__version__}"}
    headers.update(options.pop("headers", None) or {})
    return {"headers": headers, "follow_redirects": True, "max_redirects": REDIRECTS, **options, "trust_env": False}


_contexts: dict[str, ssl.SSLContext] = {}
