"""The connection to an MCP server: a session in a thread of its own, which the calls of one run share."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.client import SLICE
from planrunner.capabilities.mcp.servers import Server, Start, line, start_of
from planrunner.extras import needed

if TYPE_CHECKING:
    from planrunner.capabilities.mcp.session import Session

Result = TypeVar("Result")

STARTING = 120.0
"""Seconds until a server has to be ready: one that is downloaded first takes its time."""
ENDING = 5.0
"""Seconds for a session to end in order."""


def connected(context: Context, server: Server) -> Connection:
    """The connection to a server, begun where there is none that this call may share. Raises Failure."""
    start = start_of(context, server)

    def found() -> Connection:
        return context.lasting(f"mcp {server.name} {start.digest}", lambda: Connection(context, start))

    connection = found()
    if connection.is_ending:
        connection.wait()
        connection = found()
    return connection


class Connection:
    """A session with a server until ``end``, or until the server ends it. ``tools`` is for its list of tools, None
    while that is not known."""

    def __init__(self, context: Context, start: Start) -> None:
        self.server = start.server
        self.tools: list[Any] | None = None
        self._start = start
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._ready, self._ended = threading.Event(), threading.Event()
        self._has_begun = self._stop = self._forced = False
        self._context = context._replace(cancelled=lambda: self._forced)
        self.is_ending = False
        """Whether it takes no more calls."""
        self._cause: BaseException | None = None
        name = f"planrunner-mcp-{self.server.name}"
        threading.Thread(target=self._run, daemon=True, name=name).start()

    @property
    def over(self) -> bool:
        return self._ended.is_set()

    @property
    def pid(self) -> int:
        program = self._session.program if self._session is not None else None
        return program.pid if program is not None and not self.over else 0

    def end(self, forced: bool) -> None:
        self._stop = True
        self._forced = self._forced or forced
        if forced and self._session is not None and self._session.program is not None:
            self._session.program.kill()
        self._leave()

    def wait(self) -> None:
        if not self._ended.wait(ENDING):
            self.end(forced=True)
            self._ended.wait(ENDING)

    def ask(self, context: Context, work: Callable[[Session], Awaitable[Result | None]]) -> Result:
        """What ``work`` gives with the session, once the server is ready. Raises Failure, ``transient`` where the
        server has ended meanwhile: the next call finds another connection."""
        while not self._ready.wait(SLICE):
            if context.cancelled():
                raise Failure("stopped while the server was starting", "interrupted")
        if self._loop is None or self._session is None or self.over:
            raise self._why(context)
        answer = self._answer(work(self._session))
        try:
            future = asyncio.run_coroutine_threadsafe(answer, self._loop)
        except RuntimeError:  # the loop has ended this very moment
            answer.close()
            raise self._why(context) from None
        return self._awaited(future, context)

    def _awaited(self, future: Future[Result], context: Context) -> Result:
        while not wait((future,), SLICE).done:
            if context.cancelled():
                future.cancel()
                raise Failure("the call was stopped", "interrupted")
            if self.over:
                raise self._why(context)
        try:
            return future.result()
        except CancelledError:
            raise self._why(context) from None

    async def _answer(self, work: Awaitable[Result | None]) -> Result:
        if (result := await work) is not None:
            return result
        self._leave()
        await asyncio.Event().wait()  # the end of the session ends this as well, and tells why
        raise AssertionError("nothing sets it")

    def _why(self, context: Context) -> Failure:
        """Why the connection is over; what the server said last goes to the log."""
        if isinstance(self._cause, Failure):
            return self._cause
        session, begun = self._session, self._has_begun
        program = session.program if session is not None else None
        status = session.status if session is not None and not begun else 0
        said = f"the server `{self.server.name}` {'ended during the call' if begun else 'did not start'}"
        if self._cause is not None:
            said += f": {line(str(self._cause) or type(self._cause).__name__)}"
        said += f" (HTTP {status})" if status else ""
        if program is not None and program.said:
            context.log.write(program.said, "stderr")
            said += f"; it said: {line(program.last_line())}"
        lasting = not begun and (program is not None or 400 <= status < 500)
        return Failure(said, "logic" if lasting else "transient")

    def _leave(self) -> None:
        """Have the session end."""
        self.is_ending = True
        loop, work = self._loop, self._work
        if loop is not None and work is not None:
            with contextlib.suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(work.cancel)

    def _closed(self) -> None:
        """The server says nothing more; while it starts, the session sees that itself."""
        if self._has_begun:
            self._leave()

    def _changed(self) -> None:
        self.tools = None

    def _run(self) -> None:
        """What the thread does."""
        try:
            asyncio.run(self._main())
        except ImportError as error:
            self._cause = Failure(needed("mcp needs", "mcp", error))
        except BaseException as error:
            self._cause = self._cause or error
        self._forced = True  # what still waits for a piece of an answer gives up
        self._ended.set()
        self._ready.set()

    async def _main(self) -> None:
        self._loop, self._work = asyncio.get_running_loop(), asyncio.ensure_future(self._serve())
        if self._stop:
            self._work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._work

    async def _serve(self) -> None:
        from planrunner.capabilities.mcp import session  # late: with the library, which takes a second to load

        self._session = session.Session(self._context, self._start, self._closed, self._changed)
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(STARTING):
                    await self._session.begin(stack)
                self._has_begun = True
                self._ready.set()
                await asyncio.Event().wait()
        except TimeoutError:
            self._cause = Failure(f"the server `{self.server.name}` was not ready within {STARTING:g} s", "transient")
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._cause = session.root(error)
