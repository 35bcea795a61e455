"""The ways to the server: standard streams, and streamable HTTP on this machine."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from planrunner.process import ended_in_order

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/mcp"
LOOPBACK = "127.0.0.1"


def serve_streams(server: Server[Any], ending: Callable[[], object]) -> None:
    """Speak over standard input and output until the client closes them. A signal that ends the process calls
    ``ending`` first."""
    asyncio.run(_streams(server, ending))


async def _streams(server: Server[Any], ending: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        # a thread waits for input that nothing interrupts, so the process cannot end by itself
        try:
            ending()
        finally:
            os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, loop.run_in_executor, None, end, number)
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client is gone, and with it what it was to be told


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
    config = uvicorn.Config(application, log_level="error", access_log=False, timeout_graceful_shutdown=5)
    with ended_in_order():
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
