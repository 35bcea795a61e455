"""A session with an MCP server, by the library ``mcp``: loaded in the thread of a connection, and nowhere else."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolRequest, CallToolRequestParams, CallToolResult, Implementation

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.client import async_client, refusal
from planrunner.capabilities.mcp.servers import LARGEST, Start, line
from planrunner.capabilities.mcp.stdio import UNREADABLE, Program

Json = Any

_PAGES = 50
_NO_SESSION = 404
"""The status by which a server over HTTP tells that it does not know the session any more."""
_UNBOUNDED = {"connect": 10.0, "read": None, "write": 30.0, "pool": 30.0}
"""Seconds for the parts of a request: how long a tool takes is for the timeout of its task to say."""

for _name in ("mcp", "client"):  # the library tells of broken messages there, in the middle of the live view
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Session:
    """A session, once it has begun. ``closed`` is called when the server says nothing more, ``changed`` when it has
    other tools; ``status`` is the last HTTP status that was an error."""

    def __init__(self, context: Context, start: Start, closed: Callable[[], None], changed: Callable[[], None]) -> None:
        self._context, self._start = context, start
        self._closed, self._changed = closed, changed
        self._client: Client | None = None
        self.program: Program | None = None
        self.status = 0

    async def begin(self, stack: contextlib.AsyncExitStack) -> None:
        """Begin it, to end with the stack. Raises whatever the library does."""
        try:
            self._client = await stack.enter_async_context(self._opened("auto"))
            self.status = 0  # of servers that know the older handshake alone the first answer is an error
            return
        except Exception as error:
            if self._start.server.url or not isinstance(root(error), MCPError):
                raise
        # some that know the older handshake alone end at any other first message
        self._client = await stack.enter_async_context(self._opened("legacy"))

    async def tools(self) -> list[Any] | None:
        """All tools that the server has; None where the session has ended. Raises Failure."""
        tools: list[Any] = []
        cursor: str | None = None
        with self._telling():
            for _ in range(_PAGES):
                page = await self._begun.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if not cursor:
                    return tools
            raise Failure(f"the server `{self._start.server.name}` lists its tools on more than {_PAGES} pages")
        return None

    async def call(self, tool: str, arguments: dict[str, Json]) -> CallToolResult | None:
        """What a tool gives; None where the session has ended. Raises Failure."""
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        with self._telling():
            # not by `call_tool`, which would hold the result against patterns of the server for as long as these take
            return await self._begun.session.send_request(request, CallToolResult)
        return None

    @property
    def _begun(self) -> Client:
        assert self._client is not None
        return self._client

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """What the library raises, in the terms of an outcome; that the session has ended is passed over."""
        name = self._start.server.name
        try:
            yield
        except MCPError as error:
            if error.code == UNREADABLE:
                raise Failure(
                    f"the server `{name}` sent an answer that cannot be read: {line(error.message)}"
                ) from None
            if error.code != CONNECTION_CLOSED and self.status != _NO_SESSION:
                raise Failure(f"the server `{name}` refused: {line(error.message)}") from None
        except (RuntimeError, ValueError) as error:  # of the library, and of the models behind it
            raise Failure(f"the server `{name}` broke the protocol: {line(str(error))}") from None

    @contextlib.asynccontextmanager
    async def _opened(self, mode: str) -> AsyncIterator[Client]:
        about = Implementation(name="planrunner", version=__version__)
        async with (
            self._transport() as transport,
            Client(transport, mode=mode, client_info=about, message_handler=self._told) as client,
        ):
            yield client

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """The way to the server, with what it needs around it."""
        start = self._start
        if start.server.url:
            headers = {**start.headers, "accept-encoding": "identity"}
            hooks = {"response": [self._held]}
            async with async_client(self._context, timeout=_UNBOUNDED, headers=headers, event_hooks=hooks) as client:
                yield streamable_http_client(start.server.url, http_client=client, max_sse_event_size=LARGEST)
            return
        shut = self._context.enclosed(start.arguments, start.env, start.directory)
        try:
            self.program = Program(start.arguments, start.env, start.directory, shut)
        except Failure as error:
            raise Failure(f"the server `{start.server.name}` did not start: {error}") from None
        yield self.program.transport(self._closed)

    async def _told(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._changed()

    async def _held(self, response: httpx2.Response) -> None:
        """Hold an answer to its size; events have a limit of their own."""
        if response.status_code >= 400:
            self.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Failure(f"the server `{self._start.server.name}` compresses its answers, which was not requested")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body of so many bytes at most."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > LARGEST:
                raise Failure(f"the server answered with more than {LARGEST >> 20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def root(error: BaseException) -> BaseException:
    """What an error is about: the refusal inside it, else the first of those that it groups."""
    if isinstance(error, BaseExceptionGroup):
        leaves = [root(each) for each in error.exceptions]
        return next((leaf for leaf in leaves if isinstance(leaf, Failure)), leaves[0])
    return refusal(error) or error
