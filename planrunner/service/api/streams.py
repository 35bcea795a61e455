"""What goes on, as server-sent events: entries of a run, changes of all runs, and what a task writes.

Nothing is queued for a reader: each reads from the journal at its own pace, from where it was. A reader that is cut off
reads on with ``Last-Event-ID``. A stream with nothing to say sends an empty line now and then, at which the guard looks
whether its reader may still read.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Annotated, Any

from fastapi import Depends, Header, Query
from fastapi.responses import StreamingResponse

from planrunner.app.follow.follower import Follower
from planrunner.app.history.show import Log, Look, logs, look, read_log
from planrunner.app.queue.items import OPEN
from planrunner.app.queue.unbegun import unbegun
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.records import Struct
from planrunner.service.api.answers import Name, api_router
from planrunner.service.context import HereProject, HereVisitor, Project, Visitor, behalf
from planrunner.service.following import HereFollower
from planrunner.service.problems import Problem
from planrunner.views.progress.jsonl import entry_object

Json = Any

SILENCE = 2.0
"""Seconds after which a stream with nothing to say sends an empty line."""
ENTRIES = 64
"""Entries of a piece at most."""
PIECES = 256
"""Pieces that are kept, of ``LARGEST`` characters at most each."""
LARGEST = 100_000
BREATH = 0.02
"""Seconds between two pieces for one reader: a run that is quick comes in fewer pieces, and other readers have their
turn."""
GROWTH = 0.2
"""Seconds between two looks at a log that grows."""

_EMPTY = ":\n\n"
_OPENING = "retry: 2000\n: read on with Last-Event-ID; a reader that takes nothing for 20 seconds is cut off\n\n"
_EVENTS: dict[int | str, dict[str, Json]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}

router = api_router("streams")


class Piece(Struct):
    """Consecutive entries as events; ``last`` is the number of the last one, that after which they begin if there is
    none."""

    last: int
    text: str


class Pieces:
    """Entries of runs as the text of streams, made once for all who read the same piece. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], Piece] = OrderedDict()
        self._making = [threading.Lock() for _ in range(16)]
        """A piece is made by one thread: all readers of a run go on from the same entries then."""

    def kept(self, follower: Follower, run: str, after: int) -> Piece | None:
        """The piece after an entry, where it was made before."""
        with self._lock:
            found = self._kept.get((follower.state, run, after))
            if found is not None:
                self._kept.move_to_end((follower.state, run, after))
            return found

    def made(self, follower: Follower, run: str, after: int) -> Piece:
        """The piece after an entry; an empty one where there is nothing yet. Raises what the journal raises."""
        with self._making[hash((run, after)) % len(self._making)]:
            return self.kept(follower, run, after) or self._make(follower, run, after)

    def _make(self, follower: Follower, run: str, after: int) -> Piece:
        objects = [entry_object(entry) for entry in follower.read(run, after, ENTRIES)]
        if not objects:
            return Piece(after, "")
        piece = Piece(objects[-1]["seq"], "".join(_message(each, each["seq"]) for each in objects))
        if len(piece.text) <= LARGEST:
            with self._lock:
                self._kept[follower.state, run, after] = piece
                while len(self._kept) > PIECES:
                    self._kept.popitem(last=False)
        return piece


_pieces = Pieces()


def _message(data: Json, number: int, kind: str = "") -> str:
    """An event of a stream: its id, its type where it has one, and its data."""
    name = f"event: {kind}\n" if kind else ""
    return f"id: {number}\n{name}data: {json.dumps(data, separators=(',', ':'), default=str)}\n\n"


async def the_beginning(
    after: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    last: Annotated[str, Header(alias="Last-Event-ID", max_length=30)] = "",
) -> int:
    """The number of the last event that was read: what the browser says of itself when it connects again goes before
    the address. Raises Problem 400 for a number that no event has."""
    if not (last.isascii() and last.isdecimal()):
        return after
    if int(last) >= 1 << 53:
        raise Problem(400, "`Last-Event-ID` is larger than any id of an event")
    return int(last)


After = Annotated[int, Depends(the_beginning)]


@router.get("/runs/{run}/events/stream", response_class=StreamingResponse, responses=_EVENTS)
async def stream_events(
    visitor: HereVisitor, project: HereProject, follower: HereFollower, run: Name, after: After
) -> StreamingResponse:
    """Stream the events of a run from the beginning, or after `Last-Event-ID`, as they become durable. The id of each
    is its number, its data the entry. For a run in the queue it waits until the run begins."""
    if follower.summaries.last_seq(run) > 0:
        return _streaming(_entries(follower, run, after))
    found, has_begun = await asyncio.to_thread(_run_id, project, run)
    return _streaming(_entries(follower, found, after, has_begun))


@router.get("/changes", response_class=StreamingResponse, responses=_EVENTS)
async def stream_changes(visitor: HereVisitor, project: HereProject, follower: HereFollower) -> StreamingResponse:
    """Stream a message whenever runs change: the number of runs of each status, and of the newest run."""
    return _streaming(_changes(follower))


@router.get("/runs/{run}/log/stream", response_class=StreamingResponse, responses=_EVENTS)
async def stream_log(
    visitor: HereVisitor,
    project: HereProject,
    run: Name,
    after: After,
    task: Annotated[str, Query(min_length=1, max_length=500)],
    attempt: Annotated[int | None, Query(ge=1, lt=1 << 31)] = None,
) -> StreamingResponse:
    """Stream what an attempt of a task writes, the latest one unless another is named. The id of each event is the
    number of bytes read; `end` follows the last one."""
    watched = _Watched(visitor, project, run, task, attempt)
    found = await asyncio.to_thread(watched.log)
    return _streaming(_written(watched, found, after))


def _streaming(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _entries(follower: Follower, run: str, after: int, has_begun: bool = True) -> AsyncIterator[str]:
    yield _OPENING
    while not has_begun:
        try:
            async with asyncio.timeout(SILENCE):
                if not await follower.beyond(run, 0):
                    return
            has_begun = True
        except TimeoutError:
            yield _EMPTY
    while True:
        piece = _pieces.kept(follower, run, after)
        if piece is None:
            piece = await asyncio.to_thread(_pieces.made, follower, run, after)
        if piece.text:
            after = piece.last
            yield piece.text
            await asyncio.sleep(BREATH)
            continue
        try:
            async with asyncio.timeout(SILENCE):
                if not await follower.beyond(run, after):
                    return
        except TimeoutError:
            yield _EMPTY


async def _changes(follower: Follower) -> AsyncIterator[str]:
    summaries = follower.summaries
    yield _OPENING
    while True:
        version = summaries.version
        counts = await asyncio.to_thread(summaries.counts)
        yield _message({"counts": counts, "newest": summaries.newest}, version)
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    if not await follower.changed(version):
                        return
                break
            except TimeoutError:
                yield _EMPTY


class _Watched(Struct):
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


async def _written(watched: _Watched, found: tuple[Log, bool], after: int) -> AsyncIterator[str]:
    log, over = found
    looked = time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield _OPENING
    while True:
        piece = await asyncio.to_thread(_piece, log, after)
        if piece:
            after += len(piece)
            yield _message({"task": log.task, "attempt": log.attempt, "text": decoder.decode(piece)}, after)
            continue
        if over:
            yield _message({"task": log.task, "attempt": log.attempt}, after, "end")
            return
        await asyncio.sleep(GROWTH)
        if time.monotonic() - looked > 1.0:
            looked = time.monotonic()
            yield _EMPTY
            log, over = await asyncio.to_thread(watched._replace(attempt=log.attempt).log)


def _piece(log: Log, after: int) -> bytes:
    return next(iter(read_log(log, after)), b"")


def _run_id(project: Project, run: str) -> tuple[str, bool]:
    """The whole id of a run, and whether it has begun. Raises NotFound, also for one that left the queue without."""
    try:
        with closing(open_journal(project.state, readonly=True)) as journal:
            return journal.find_run(run), True
    except NotFound as missing:
        item = unbegun(run, project.state, missing)
        if item.status not in OPEN:
            raise
        return item.run, False
