"""What the tests of the HTTP family share: peers on raw sockets, a trap, and a project to call capabilities in."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from planrunner.capabilities.binding import bind, invoke
from planrunner.capabilities.builtin import TARGETS, load
from planrunner.capabilities.contract import Call, Context
from planrunner.engine.services import AttemptServices
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import Outcome
from planrunner.machine.verdicts import retry_delay, retry_policy
from planrunner.plan.model import Retry, Task


class Seen(NamedTuple):
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """A server on a raw socket. ``act`` gets each request, the connection and the number of the request (from 1); the
    bytes that it returns are sent, None leaves the connection to it. ``close`` as the value of the header
    ``connection`` in what it returns ends the connection."""

    def __init__(self, act: Callable[[Seen, socket.socket, int], bytes | None], host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, 0))
        self._listener.listen(50)
        self._act = act
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.connections = 0
        self.requests: list[Seen] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._open]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                while request := _read(connection):
                    self.requests.append(request)
                    said = self._act(request, connection, len(self.requests))
                    if said is None:
                        return
                    connection.sendall(said)
                    if b"\r\nconnection: close\r\n" in said.partition(b"\r\n\r\n")[0].lower() + b"\r\n":
                        return
        except OSError:
            return


def _read(connection: socket.socket) -> Seen | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    left = int(headers.get("content-length", 0)) - len(body)
    while left > 0 and (part := connection.recv(65536)):
        body += part
        left -= len(part)
    return Seen(method, target, headers, body)


def answer(status: int = 200, body: bytes | str = b"", **headers: object) -> bytes:
    """An answer on the wire; ``content_length`` replaces the right one, and None leaves it out."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-length": len(data), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1") + data


def as_json(text: str, status: int = 200, **headers: object) -> bytes:
    return answer(status, text, content_type="application/json", **headers)


@contextmanager
def trap() -> Iterator[Callable[[], int]]:
    """A socket that listens on every address of the machine and counts who connects; gives the count, and has ``port``
    as an attribute."""
    listeners = []
    four = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    four.bind(("0.0.0.0", 0))
    port = four.getsockname()[1]
    listeners.append(four)
    if socket.has_ipv6:
        six = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            six.bind(("::", port))
            listeners.append(six)
        except OSError:
            six.close()
    for each in listeners:
        each.listen(50)
        each.setblocking(False)
    caught = [0]

    def count() -> int:
        for each in listeners:
            while True:
                try:
                    connection, _ = each.accept()
                except BlockingIOError:
                    break
                connection.close()
                caught[0] += 1
        return caught[0]

    count.port = port  # type: ignore[attr-defined]
    try:
        yield count
    finally:
        for each in listeners:
            each.close()


class Log:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        self.data += data

    def beat(self) -> None:
        pass

    @property
    def usage(self) -> dict[str, Any]:
        return {}

    def spend(self, amounts: Mapping[str, Any]) -> None:
        assert set(amounts) == {"calls"}


class Project:
    """A project folder with its file, in which capabilities are called as the engine does it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "project"
        self.path.mkdir()
        self.state = path / "state"
        self.state.mkdir(mode=0o700)
        open_journal(str(self.state)).close()
        self.log = Log()
        self.stop = threading.Event()
        self.services = AttemptServices(str(self.state), str(self.path), dict(os.environ), {})
        self.network('private: [127.0.0.1, "::1"]')

    def network(self, text: str) -> None:
        (self.path / "planrunner.yaml").write_text(f"network: {{{text}}}\n" if text else "", encoding="utf-8")

    def context(
        self, env: Mapping[str, str] | None = None, timeout: float | None = None, once: str = "once"
    ) -> Context:
        call = Call(
            "run", Task("task"), 1, "run:task:1", {}, "", (), {}, env or {}, str(self.path), "", timeout, False, once
        )
        return Context(call, self.log, self.stop.is_set, self.services)

    def call(self, name: str, context: Context | None = None, **inputs: Any) -> Outcome:
        """The outcome of the last attempt; ``tries`` are all of them, as the machine makes them of a task without
        ``retry``."""
        binding, context = bind(name, load(TARGETS[name])), context or self.context()
        # Several threads may call at once, and none may count the attempts of another.
        tries: list[Outcome] = []
        self.tries = tries
        while True:
            found = invoke(binding, inputs, context)
            assert isinstance(found, Outcome)
            tries.append(found)
            policy = retry_policy(Retry(), found, len(tries), found.failure)
            if not found.failure or policy is None:
                return found
            time.sleep(retry_delay(policy, len(tries), name, found.retry_after))
            context = context._replace(call=context.call._replace(attempt=len(tries) + 1))

    def get(self, url: str, **inputs: Any) -> Outcome:
        return self.call("http.get", None, url=url, **inputs)


def until(condition: Callable[[], bool], seconds: float = 240.0) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
