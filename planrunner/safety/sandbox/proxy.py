"""The one way out of a sandbox whose hosts are judged: a proxy of the engine for HTTP and for tunnels (CONNECT).

It listens on a socket file that is let into the sandbox. Each host is judged, looked up once, and the connection goes
to a judged address; nothing else leaves, whatever the process inside does with its own variables.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.safety.sandbox.refusals import Tally

Judge = Callable[[str, int], "Sequence[Endpoint]"]
"""The addresses of a host. Raises Unreachable for one that may not be reached, and OSError for one not found."""

_LARGEST_HEAD = 64 * 1024
_LONGEST_HOST = 253
_MOST = 64
"""Connections at once; more of them wait."""
_PATIENCE, _IDLE = 30.0, 300.0
"""Seconds for a request and for a connection, and seconds that a tunnel may be silent."""


class Endpoint(Struct):
    """A judged address, as the functions of sockets take it."""

    family: int
    address: Any


class Unreachable(Exception):
    """A host may not be reached; ``rule`` is the name of what refuses it."""

    def __init__(self, message: str, rule: str) -> None:
        super().__init__(message)
        self.rule = rule


class Proxy:
    """Serves one attempt until it is closed; ``tally`` is told of what was not let out."""

    def __init__(self, judge: Judge, tally: Tally) -> None:
        self._tally = tally
        self._judge = judge
        self._folder = tempfile.mkdtemp(prefix="planrunner-proxy-")
        self.path = os.path.join(self._folder, "socket")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen(_MOST)
        self._room = threading.Semaphore(_MOST)
        self._open: set[socket.socket] = set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True, name="planrunner-proxy").start()

    def close(self) -> None:
        """End every connection and take the socket away."""
        self._closed = True
        for each in (self._listening, *list(self._open)):
            _shut(each)
        self._listening.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while not self._closed:
            self._room.acquire()
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        server: socket.socket | None = None
        try:
            client.settimeout(_PATIENCE)
            head, rest = _head(client)
            host, port, first = _asked(head)
            server = self._connected(self._judged(host, port))
            self._open.add(server)
            if first:
                server.sendall(first + rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
            _pass_on(client, server)
        except Unreachable as refused:
            _answer(client, "403 Forbidden", str(refused))
        except ValueError as error:
            _answer(client, "400 Bad Request", str(error))
        except OSError as error:
            _answer(client, "502 Bad Gateway", str(error))
        finally:
            for each in (client, server):
                if each is not None:
                    self._open.discard(each)
                    _shut(each)
                    each.close()
            self._room.release()

    def _judged(self, host: str, port: int) -> Sequence[Endpoint]:
        try:
            return self._judge(host, port)
        except Unreachable as refused:
            # told as the program wrote it: lowered, a secret in it would not be known for one
            message = str(refused).replace(host.lower(), host)
            self._tally.add(refused.rule, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", message)
            raise Unreachable(message, refused.rule) from None

    def _connected(self, endpoints: Sequence[Endpoint]) -> socket.socket:
        problem = OSError("the host has no address")
        for endpoint in endpoints:
            server = socket.socket(endpoint.family)
            server.settimeout(_PATIENCE)
            try:
                server.connect(endpoint.address)
            except OSError as error:
                server.close()
                problem = error
            else:
                return server
        raise problem


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what came after it already."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more or len(data) + len(more) > _LARGEST_HEAD:
            raise ValueError("this is not a request that a proxy takes")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _asked(head: bytes) -> tuple[str, int, bytes]:
    """Host, port, and the head that the server gets (empty: a tunnel is asked for)."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError("this is not a request that a proxy takes")
    if words[0] == "CONNECT":
        target = urlsplit(f"//{words[1]}")
        if not target.hostname or target.port is None:
            raise ValueError("a tunnel is asked for as HOST:PORT")
        return _host(target), target.port, b""
    target = urlsplit(words[1])
    if target.scheme != "http" or not target.hostname:
        raise ValueError("a proxy is asked with the whole address")
    path = target._replace(scheme="", netloc="", fragment="").geturl() or "/"
    kept = [line for line in lines if line.partition(":")[0].strip().lower() not in _BETWEEN]
    text = "\r\n".join((f"{words[0]} {path} {words[2]}", *kept, "Connection: close", "", ""))
    return _host(target), target.port or 80, text.encode("latin-1")


def _host(target: SplitResult) -> str:
    """The host as it was written, upper case and all. Raises ValueError for one that is longer than any name."""
    lower = target.hostname or ""
    if len(lower) > _LONGEST_HOST:
        raise ValueError("no host has a name as long as that")
    start = target.netloc.lower().rfind(lower)
    return target.netloc[start : start + len(lower)]


_BETWEEN = frozenset(("connection", "proxy-connection", "proxy-authorization", "keep-alive", "upgrade"))


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Hand bytes on both ways until both sides have said all, or neither says anything for long."""
    towards = {one: other, other: one}
    with selectors.DefaultSelector() as open_sides:
        for side in towards:
            open_sides.register(side, selectors.EVENT_READ)
        while towards:
            ready = open_sides.select(_IDLE)
            if not ready:
                return
            readable = {key.fileobj for key, _ in ready}
            for source in [side for side in (one, other) if side in readable]:
                if data := source.recv(65536):
                    towards[source].sendall(data)
                else:
                    open_sides.unregister(source)
                    towards.pop(source).shutdown(socket.SHUT_WR)


def _answer(client: socket.socket, status: str, message: str) -> None:
    body = f"planrunner: {message}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    try:
        client.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
    except OSError:
        return  # the client is gone


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was never connected, or is closed already
