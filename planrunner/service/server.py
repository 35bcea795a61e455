"""The HTTP server: uvicorn with limits on time that it does not have itself, and a graceful end."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from planrunner.ancestry import RunnerMark, adopt_orphans, mark_for_good
from planrunner.errors import UsageError
from planrunner.journal.chain import data_folder
from planrunner.process import share_process
from planrunner.records import Struct
from planrunner.safety.tokens import tokens
from planrunner.service.access import Access
from planrunner.service.app import make_app
from planrunner.service.context import Project
from planrunner.service.control import Control
from planrunner.service.guard import Guard, Limits
from planrunner.service.idempotency import Idempotency
from planrunner.service.logs import Log, Logged
from planrunner.service.peers import connecting_uid, processes_of
from planrunner.service.reports import Reports, Told

HEAD_SECONDS = 15.0
"""Seconds in which the head of a request has to arrive."""
HEAD_BYTES = 64 << 10
"""Bytes of the head of a request: the names, the values, the address."""
CONNECTIONS = 2000
"""Connections at once; of more each gets 503."""


class Listening(Struct):
    """Where a service listens: the open socket, its address as a person types it, whether only this machine reaches
    it, and the names it answers to."""

    socket: socket.socket
    address: str
    is_local: bool
    hosts: tuple[str, ...]


def listen(host: str, port: int, names: Sequence[str] = ()) -> Listening:
    """Open a port, 0 for a free one. ``names`` are further names (``plans.example.org``) that the service is called
    by. Raises UsageError for an address that cannot be had, and for one that others reach while there are no tokens."""
    local = _is_loopback(host)
    if not local and not tokens():
        raise UsageError(
            f"others reach `{host}`, and there are no tokens to tell them apart",
            "make one with `planrunner token create NAME --scope run`, or listen at 127.0.0.1",
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: else nothing is sent at once
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(1024)
    except OSError as error:
        raise UsageError(
            f"nothing can listen at `{host}` port {port}: {error.strerror or error}", "--port 0 takes a free port"
        ) from None
    bound = opened.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    known = {f"{shown}:{bound}", *(f"{name}:{bound}" for name in ("localhost", "127.0.0.1", "[::1]") if local)}
    known |= {each.lower() for name in names for each in (name, f"{name}:{bound}")}
    return Listening(opened, f"http://{shown}:{bound}", local, tuple(sorted(known)))


def serve(projects: Sequence[Project], place: Listening, ready: Callable[[Access], None], log: Log) -> None:
    """Serve until TERM, INT, HUP or QUIT. ``ready`` is called once requests are answered."""
    share_process()
    marks = [RunnerMark(project.state, data_folder()) for project in projects]
    mark_for_good()
    adopt_orphans()
    log.take_over()
    access = Access(f"planrunner-{place.socket.getsockname()[1]}", os.geteuid() if place.is_local else None)
    app = make_app(projects)
    app.state.access = access
    app.state.stopping = False
    app.state.control = control = Control(projects)
    app.state.reports = reports = Reports(projects, Told(app.state.followers, place.address, _say))

    def begun() -> None:
        ready(access)
        reports.start()

    states = {each.name: each.state for each in projects}
    config = uvicorn.Config(
        Logged(Guard(Idempotency(app, states), access, place.hosts, Limits()), log),
        http=_Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        limit_concurrency=CONNECTIONS,
    )
    try:
        for project in projects:
            app.state.followers.of(project)
        control.start_work()
        _Server(config, begun, app).run(sockets=[place.socket])
    finally:
        control.close()
        reports.close()
        app.state.followers.close()
        for mark in marks:
            mark.close()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _Server(uvicorn.Server):
    """Says when it is ready, and lets TERM, INT, HUP and QUIT end it without a traceback."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], app: Any) -> None:
        super().__init__(config)
        self._ready = ready
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for number in (signal.SIGHUP, signal.SIGQUIT):  # uvicorn knows the other two
            if signal.getsignal(number) == signal.SIG_DFL and threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.stopping = True
        self._captured_signals.clear()
        await asyncio.to_thread(self._app.state.followers.close)  # streams end with it
        await super().shutdown(sockets)


class _Strict(h11.Connection):
    """Refuses heads that h11 takes: a body framed in two ways, which a proxy before the service may read otherwise, a
    version that is not HTTP/1, and more than ``HEAD_BYTES``, also in one piece."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            size = (
                len(event.method) + len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)
            )
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("a body has one length")
            if event.http_version not in (b"1.0", b"1.1") or size > HEAD_BYTES:
                raise h11.RemoteProtocolError("not a head that is taken")
        return event


class _Connection(H11Protocol):
    """A connection whose client has to send the head of each request in time, and that can be cut off."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self.app_state = {**self.app_state, "abort": transport.abort, "user": functools.cache(self._user)}
        self.app_state["asking"] = self._asking
        self.conn = _Strict(h11.SERVER, HEAD_BYTES)
        super().connection_made(transport)
        self._watch()

    def _user(self) -> int | None:
        """Whose process connected, asked once: it takes milliseconds on a machine with many connections."""
        return connecting_uid(self.client or ("", 0), self.server)

    def _asking(self) -> list[int] | None:
        """The processes of this machine that have the other end, looked for each time: connections are handed on."""
        return processes_of(self.client or ("", 0), self.server)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _watch(self) -> None:
        """Have a deadline while the head of a request is awaited; between requests the one of uvicorn holds."""
        waits = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
