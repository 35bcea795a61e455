"""The ways to the server: standard streams, and streamable HTTP on this machine."""

from __future__ import annotations

import asyncio
import hmac
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/mcp"
LOOPBACK = "127.0.0.1"


def serve_streams(server: Server[Any]) -> int:
    """Speak over standard input and output until the client closes them; the number of the signal that ended it, or
    0."""
    return asyncio.run(_streams(server))


async def _streams(server: Server[Any]) -> int:
    loop, ended = asyncio.get_running_loop(), 0
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        nonlocal ended
        ended = number
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except asyncio.CancelledError:
        if not ended:
            raise
    return ended


def opened(port: int) -> socket.socket:
    """A socket that listens on this machine alone; port 0 is any free one. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen(128)
    except OSError:
        bound.close()
        raise
    return bound


def serve_http(server: Server[Any], bound: socket.socket, token: str) -> None:
    """Answer at ``PATH`` of the socket until the process is told to end. Every request carries ``token``; the library
    checks Host and Origin, so that no web page reaches the server through a browser."""
    application = behind_token(server.streamable_http_app(streamable_http_path=PATH, host=LOOPBACK), token)
    config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    uvicorn.Server(config).run(sockets=[bound])


def behind_token(application: Application, token: str) -> Application:
    """The application for those who know the token; others get 401."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or hmac.compare_digest(_authorization(scope), wanted):
            await application(scope, receive, send)
            return
        headers = [(b"www-authenticate", b'Bearer realm="planrunner"'), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"the header Authorization needs the token of this server\n"})

    return guarded


def _authorization(scope: Scope) -> bytes:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0] if len(values) == 1 else b""
