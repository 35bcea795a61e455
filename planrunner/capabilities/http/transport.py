"""Connections of a synchronous client: to checked addresses only, and given up when the attempt is stopped.

Loads the HTTP libraries; imported by ``client.py`` when a client is made.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import httpcore2
import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.guard import Endpoint, Guard
from planrunner.capabilities.http.origins import REDIRECT_BODY, keep_to_origin
from planrunner.capabilities.http.watch import SLICE, Watch
from planrunner.capabilities.outputs import count_call

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
        raise Failure(f"refused to connect to the unix socket {path}", "policy", rule="network.socket")

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._watch.check()
            time.sleep(min(SLICE, left))

    def _admit(self, host: str, port: int, until: float) -> list[Endpoint]:
        """Look up in a thread of its own: the system's resolver cannot be interrupted."""
        done = threading.Event()
        found: list[list[Endpoint]] = []
        failed: list[BaseException] = []

        def look() -> None:
            try:
                found.append(self._guard.admit(host, port))
            except BaseException as error:
                failed.append(error)
            done.set()

        threading.Thread(target=look, daemon=True, name="planrunner-lookup").start()
        while not done.wait(SLICE):
            self._watch.check()
            if time.monotonic() > until:
                raise httpcore2.ConnectTimeout(f"{host} was not found in time")
        if failed and isinstance(failed[0], OSError):
            raise httpcore2.ConnectError(f"{host} was not found: {failed[0].strerror or failed[0]}")
        if failed:
            raise failed[0]
        return found[0]

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
            return _readable(self._socket)
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


def _readable(opened: socket.socket) -> bool:
    if opened.fileno() < 0:
        return True
    waiting = select.poll()
    waiting.register(opened, select.POLLIN)
    return bool(waiting.poll(0))
