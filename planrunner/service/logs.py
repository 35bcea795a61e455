"""The log of the service: a line of JSON for each request and for whatever goes wrong. No line holds a secret."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from typing import Any, TextIO

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planrunner.engine.identities import read_traceparent
from planrunner.errors import UsageError
from planrunner.escapes import masked_data
from planrunner.views.runs import rfc3339

Json = Any

LONGEST = 2_000
"""Characters of a path or a message."""


class Log:
    """Writes lines. ``path`` is a file that is appended to, ``-`` for standard error; without one only warnings and
    errors are written, to standard error and as text. Raises UsageError for a file that cannot be written."""

    def __init__(self, path: str | None) -> None:
        self._file: TextIO | None = _opened(path) if path else None

    @property
    def is_kept(self) -> bool:
        """Whether requests are logged."""
        return self._file is not None

    def write(self, level: str, event: str, **facts: Json) -> None:
        """Write one line."""
        if self._file is None:
            if level != "info":
                told = masked_data(facts)
                sys.stderr.write(f"planrunner: {told.get('message', event)}\n{told.get('error', '')}")
                sys.stderr.flush()
            return
        line = {"at": rfc3339(time.time()), "level": level, "event": event, **facts}
        self._file.write(json.dumps(masked_data(line), ensure_ascii=True, default=str) + "\n")
        self._file.flush()

    def take_over(self) -> None:
        """Have what libraries and the service log by ``logging`` written here, from warnings on."""
        root = logging.getLogger()
        root.handlers[:] = [_Handler(self)]
        root.setLevel(logging.WARNING)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self._file is not sys.stderr:
            self._file.close()


class Logged:
    """An ASGI application around another one, which logs each request once it is answered. The query is left out: it
    may hold what people type."""

    def __init__(self, app: ASGIApp, log: Log) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._log.is_kept:
            await self._app(scope, receive, send)
            return
        began, answer = time.monotonic(), {"status": 0, "bytes": 0}

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer["status"] = message["status"]
            elif message["type"] == "http.response.body":
                answer["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            self._log.write(
                "info" if answer["status"] < 500 else "error",
                "request",
                method=scope["method"],
                path=scope["path"][:LONGEST],
                **answer,
                milliseconds=round((time.monotonic() - began) * 1000, 1),
                **_who(scope),
                **_trace(scope),
            )


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            more = {}
            if record.exc_info and record.exc_info[0] is not None:
                more["error"] = "".join(traceback.format_exception(*record.exc_info))[-8 * LONGEST :]
            message = record.getMessage()[:LONGEST]
            self._log.write(record.levelname.lower(), "log", logger=record.name, message=message, **more)
        except (OSError, ValueError):
            self.handleError(record)


def _who(scope: Scope) -> dict[str, Json]:
    visitor, client = scope.get("visitor"), scope.get("client") or ("", 0)
    told: dict[str, Json] = {"client": client[0]}
    if visitor is not None:
        told |= {"by": visitor.principal.name, "token": visitor.token or None}
    return told


def _trace(scope: Scope) -> dict[str, str]:
    """The trace that the client is in."""
    given = Headers(scope=scope).get("traceparent", "")
    identity = read_traceparent(given) if given else None
    return {} if identity is None else {"trace": f"{identity.trace:032x}"}


def _opened(path: str) -> TextIO:
    if path == "-":
        return sys.stderr
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"the log `{path}` cannot be written: {error.strerror}") from None
    return os.fdopen(descriptor, "a", encoding="utf-8")
