"""The command line and the service in this process: no other process, no socket."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from planrunner.cli import main
from planrunner.service.access import Access
from planrunner.service.app import make_app
from planrunner.service.context import projects_at
from planrunner.service.control import Control
from planrunner.service.guard import Guard, Limits
from planrunner.service.idempotency import Idempotency
from planrunner.service.reports import Reports, Told

Json = Any


class Called(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def call(project: Path, *words: str) -> Called:
    """A command of planrunner in a project, as a person types it there."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(), "utf-8")
    sys.stdout, sys.stderr = (io.TextIOWrapper(each, "utf-8", errors="backslashreplace") for each in (out, err))
    collects = gc.isenabled()
    try:
        with chdir(project):
            code = main(["--no-input", *words])
        sys.stdout.flush()
        sys.stderr.flush()
        return Called(code, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace"))
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        if collects:
            gc.enable()


class Answer(NamedTuple):
    """What came back for a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def data(self) -> Json:
        return json.loads(self.body)


class _Faults(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)[-3:]) if record.exc_info else ""
        self.told.append(f"{record.getMessage()}: {trace}")


class _Own(Access):
    """Whoever asks is the user of the service, whatever tokens there are."""

    def visitor(self, headers: Mapping[str, str], user: Any) -> Any:
        return self._owner

    def holds(self, visitor: Any) -> bool:
        return True


class Service:
    """A service for one project, with its guard: requests go straight to the application."""

    def __init__(self, project: Path) -> None:
        with chdir(project):
            served = projects_at([str(project)])
        self.project = served[0].name
        self.app = make_app(served)
        self.app.state.access = access = _Own("planrunner-test", os.geteuid())
        self.app.state.stopping = False
        self.app.state.control = Control(served)
        self.app.state.reports = Reports(served, Told(self.app.state.followers, "http://here", print))
        limits, states = Limits(rate=1e9, burst=10**9), {each.name: each.state for each in served}
        self._asgi = Guard(Idempotency(self.app, states), access, frozenset({"here"}), limits)
        self._faults = _Faults()
        self.app.state.followers.of(served[0])

    def get(self, paths: Sequence[str]) -> list[Answer]:
        """Answers to requests for these addresses, one after the other."""
        log = logging.getLogger("planrunner.service")
        log.addHandler(self._faults)
        try:
            return asyncio.run(self._all(paths))
        finally:
            log.removeHandler(self._faults)

    @property
    def faults(self) -> list[str]:
        """Of the service, with the end of their tracebacks."""
        return self._faults.told

    def close(self) -> None:
        self.app.state.followers.close()

    async def _all(self, paths: Sequence[str]) -> list[Answer]:
        return [await self._one(path) for path in paths]

    async def _one(self, path: str) -> Answer:
        address, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": address_of(address),
            "raw_path": address.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"here"), (b"accept", b"*/*" if address.startswith("/api") else b"text/html")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "state": {"user": os.geteuid, "asking": lambda: [os.getpid()], "abort": lambda: None},
        }
        sent: list[Any] = []

        asked = iter([True])

        async def receive() -> Any:
            if not next(asked, False):
                await asyncio.Event().wait()  # the other side stays until it has the answer
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._asgi(scope, receive, send)
        begun = next(message for message in sent if message["type"] == "http.response.start")
        headers = {name.decode().lower(): value.decode() for name, value in begun["headers"]}
        return Answer(begun["status"], headers, b"".join(each.get("body", b"") for each in sent[1:]))


def address_of(path: str) -> str:
    """An address as a server hands it on: decoded."""
    return unquote(path)


@contextmanager
def service(project: Path) -> Iterator[Service]:
    """A service for a project until the block is left."""
    made = Service(project)
    try:
        yield made
    finally:
        made.close()


def path(text: str) -> str:
    """A name as it stands in an address."""
    return quote(text, safe="")
