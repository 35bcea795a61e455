"""The log of a task that runs, read as it grows: bounded pieces, and a count of what a slow reader missed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import closing

from planrunner.app.history.state import stored_state
from planrunner.engine.output import log_name
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import private
from planrunner.views.page.drawer import readable

POLL = 0.2
"""Seconds between two looks at a file."""
PIECE = 64 << 10
"""Bytes that are given at once; of more the last ones, and the lines before are counted as dropped."""


class Tailing:
    """The newest attempt of a task of a run, and how far its log was read. Raises NotFound for a run or a task that
    there is not."""

    def __init__(self, state: str, run: str, task: str) -> None:
        self.state, self.task = state, task
        with closing(open_journal(state, readonly=True)) as journal:
            self.run = journal.find_run(run)
        self.attempt, self.going = 0, True
        self.at = 0

    def look(self) -> bool:
        """See which attempt is the newest; says whether that is another one than before. Nothing is read from the
        start of a history that has not changed: call it where the run has new entries."""
        with closing(open_journal(self.state, readonly=True)) as journal:
            found = stored_state(journal, self.run)
        if self.task not in found.index:
            raise NotFound(f"run {self.run} has no task `{self.task}`")
        task = found.tasks[found.index[self.task]]
        self.going = task.status in ("running", "queued", "pending")
        changed = task.attempts != self.attempt
        self.attempt = task.attempts
        if changed:
            self.at = 0
        return changed

    def read(self) -> tuple[str, int]:
        """What was written since, and how many lines were left out."""
        path = os.path.join(self.state, "logs", self.run, log_name(self.task, self.attempt))
        try:
            with open(path, "rb", opener=private) as file:
                size = file.seek(0, os.SEEK_END)
                dropped = 0
                if size - self.at > PIECE:
                    file.seek(self.at)
                    start = size - PIECE
                    while (here := file.tell()) < start:
                        dropped += file.read(min(1 << 20, start - here)).count(b"\n")
                    self.at = start
                file.seek(self.at)
                data = file.read(PIECE)
        except OSError:
            return "", 0
        self.at += len(data)
        return readable(data.decode("utf-8", "replace")), dropped


async def pieces(tailing: Tailing, seq: Callable[[], int]) -> AsyncIterator[tuple[str, str]]:
    """What happens to a log, as names and texts: ``reset`` (a new attempt), ``text``, ``dropped`` (``124 lines``),
    ``end`` (the task is settled). ``seq`` is the last entry of the run."""
    seen = -1
    while True:
        if (now := seq()) != seen:
            seen = now
            if await asyncio.to_thread(tailing.look):
                yield "reset", str(tailing.attempt)
        text, dropped = await asyncio.to_thread(tailing.read)
        if dropped:
            yield "dropped", f"{dropped:,} lines"
        if text:
            yield "text", text
        elif not tailing.going:
            yield "end", ""
            return
        else:
            yield "still", ""
        await asyncio.sleep(POLL)
