"""What goes on, as server-sent events: entries of a run, changes of all runs, and what a task writes.

Nothing is queued for a reader: each reads from the journal at its own pace, from where it was. A reader that is cut off
reads on with ``Last-Event-ID``.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from planrunner.app.follow.follower import Follower
from planrunner.app.history.show import Log, Look, logs, look, read_log
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.service.access import Access
from planrunner.service.api.answers import Name, api_router
from planrunner.service.context import HereProject, HereVisitor, Project, Visitor, behalf
from planrunner.service.following import HereFollower
from planrunner.service.pieces import Pieces, message

Json = Any

LOOK = 2.0
"""Seconds between two looks at whether the token of a reader still holds. A silent stream says then that it lives."""
BREATH = 0.02
"""Seconds between two pieces for one reader: a run that is quick comes in fewer pieces, and other readers have their
turn."""
GROWTH = 0.2
"""Seconds between two looks at a log that grows."""

_OPENING = "retry: 2000\n: read on with Last-Event-ID; a reader that takes nothing for 20 seconds is cut off\n\n"
_EVENTS: dict[int | str, dict[str, Json]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}

router = api_router("streams")
_pieces = Pieces()


class Reader(NamedTuple):
    """Who reads a stream. ``after`` is where it begins: the number of the last event that was read."""

    visitor: Visitor
    access: Access
    after: int

    def may_go_on(self) -> bool:
        """Whether the token of the reader still holds."""
        return self.access.holds(self.visitor)


async def the_reader(
    request: Request,
    visitor: HereVisitor,
    after: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    last: Annotated[str, Header(alias="Last-Event-ID", max_length=30)] = "",
) -> Reader:
    """Who reads, and from where: what the browser says of itself when it connects again goes before the address."""
    start = int(last) if last.isascii() and last.isdecimal() else after
    return Reader(visitor, request.app.state.access, start)


HereReader = Annotated[Reader, Depends(the_reader)]


@router.get("/runs/{run}/events/stream", response_class=StreamingResponse, responses=_EVENTS)
async def stream_events(
    reader: HereReader, project: HereProject, follower: HereFollower, run: Name
) -> StreamingResponse:
    """Stream the events of a run from the beginning, or after `Last-Event-ID`, as they become durable. The id of each
    is its number, its data the entry."""
    known = follower.summaries.last_seq(run) > 0
    found = run if known else await asyncio.to_thread(_run_id, project, run)
    return _streaming(_entries(reader, follower, found))


@router.get("/changes", response_class=StreamingResponse, responses=_EVENTS)
async def stream_changes(reader: HereReader, project: HereProject, follower: HereFollower) -> StreamingResponse:
    """Stream a message whenever runs change: the number of runs of each status, and of the newest run."""
    return _streaming(_changes(reader, follower))


@router.get("/runs/{run}/log/stream", response_class=StreamingResponse, responses=_EVENTS)
async def stream_log(
    reader: HereReader,
    project: HereProject,
    run: Name,
    task: Annotated[str, Query(min_length=1, max_length=500)],
    attempt: Annotated[int | None, Query(ge=1, lt=1 << 31)] = None,
) -> StreamingResponse:
    """Stream what an attempt of a task writes, the latest one unless another is named. The id of each event is the
    number of bytes read; `end` follows the last one."""
    watched = _Watched(reader.visitor, project, run, task, attempt)
    found = await asyncio.to_thread(watched.log)
    return _streaming(_written(reader, watched, found))


def _streaming(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _entries(reader: Reader, follower: Follower, run: str) -> AsyncIterator[str]:
    after, checked = reader.after, time.monotonic()
    yield _OPENING
    while True:
        if time.monotonic() - checked > LOOK:
            checked = time.monotonic()
            if not reader.may_go_on():
                return
        piece = _pieces.kept(follower, run, after)
        if piece is None:
            piece = await asyncio.to_thread(_pieces.made, follower, run, after)
        if piece.text:
            after = piece.last
            yield piece.text
            await asyncio.sleep(BREATH)
            continue
        try:
            async with asyncio.timeout(LOOK):
                if not await follower.beyond(run, after):
                    return
        except TimeoutError:
            yield ":\n\n"


async def _changes(reader: Reader, follower: Follower) -> AsyncIterator[str]:
    summaries = follower.summaries
    yield _OPENING
    while reader.may_go_on():
        version = summaries.version
        counts = await asyncio.to_thread(summaries.counts)
        yield message({"counts": counts, "newest": summaries.newest}, version)
        while True:
            try:
                async with asyncio.timeout(LOOK):
                    if not await follower.changed(version):
                        return
                break
            except TimeoutError:
                if not reader.may_go_on():
                    return
                yield ":\n\n"


class _Watched(NamedTuple):
    """The log that is streamed: of an attempt of a task, None for its latest."""

    visitor: Visitor
    project: Project
    run: str
    task: str
    attempt: int | None

    def look(self) -> Look:
        """The run as it stands. Raises NotFound."""
        with behalf(self.visitor, self.project):
            return look(self.run, self.project.state)

    def log(self) -> tuple[Log, bool]:
        """The log, and whether nothing is added to it any more. Raises NotFound for a task that wrote nothing yet."""
        found = self.look()
        every = logs(found, self.task, self.attempt)
        if not every:
            raise NotFound(f"task `{self.task}` has not started")
        last = every[-1]
        number = found.state.index.get(last.task)
        grows = found.row.leased and (number is None or number in found.state.running)
        return last, not grows


async def _written(reader: Reader, watched: _Watched, found: tuple[Log, bool]) -> AsyncIterator[str]:
    log, over = found
    after, checked = reader.after, time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield _OPENING
    while True:
        piece = await asyncio.to_thread(_piece, log, after)
        if piece:
            after += len(piece)
            yield message({"task": log.task, "attempt": log.attempt, "text": decoder.decode(piece)}, after)
            continue
        if over:
            yield message({"task": log.task, "attempt": log.attempt}, after, "end")
            return
        await asyncio.sleep(GROWTH)
        if time.monotonic() - checked > 1.0:
            checked = time.monotonic()
            if not reader.may_go_on():
                return
            log, over = await asyncio.to_thread(watched._replace(attempt=log.attempt).log)


def _piece(log: Log, after: int) -> bytes:
    return next(iter(read_log(log, after)), b"")


def _run_id(project: Project, run: str) -> str:
    """The whole id of a run. Raises NotFound."""
    with closing(open_journal(project.state, readonly=True)) as journal:
        return journal.find_run(run)
