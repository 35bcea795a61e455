"""The live view of a run that another process acts on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from planrunner.app.history.show import POLL, look
from planrunner.app.history.state import begun
from planrunner.app.queue.asking import item
from planrunner.app.queue.items import Item
from planrunner.engine.output import log_name
from planrunner.engine.poller import TimeLine, boot
from planrunner.errors import NextStep, NotFound, UsageError
from planrunner.escapes import harmless
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state, private
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.views.progress.plain import PlainProgress
from planrunner.views.progress.tree import TreeProgress
from planrunner.views.status import exit_code
from planrunner.views.terminal import Terminal

_PIECE = 65_536


class Attachment:
    """A look over the shoulder of a run, from its beginning to where it ends or pauses."""

    __slots__ = ("_journal", "_line", "_logs", "_read", "_seen", "_watch", "run_id", "state")

    def __init__(self, journal: Journal, run_id: str, directory: str, screen: Terminal) -> None:
        self.run_id = run_id
        self.state = begun(journal, run_id)
        self._journal = journal
        self._line = TimeLine()
        self._logs = os.path.join(directory, "logs", run_id)
        self._read: dict[tuple[str, int], int] = {}
        self._seen = 0
        self._fold()
        self._watch = TreeProgress(screen) if screen.live else PlainProgress(screen)
        self._watch.started(run_id, self.state.plan, self.state)
        self._skip_logs()

    def follow(self) -> State:
        """Show what happens until no process acts on the run; gives how it stands then. Ctrl-C raises
        KeyboardInterrupt and leaves the run alone."""
        try:
            while True:
                is_leased = self._journal.is_leased(self.run_id)  # before the look: what is written later is seen then
                for task, attempt, data in self._output():
                    self._watch.output(task, attempt, "stdout", data)
                self._fold(tell=True)
                if not is_leased:
                    self._watch.ended(None)
                    return self.state
                self._watch.tick(self._line.clock(boot()).now())
                time.sleep(POLL)
        except KeyboardInterrupt:
            if isinstance(self._watch, TreeProgress):
                self._watch.let_go()
            raise

    def _fold(self, tell: bool = False) -> None:
        for entry in self._journal.entries(self.run_id, self._seen):
            self._seen = entry.seq
            evolve(self.state, entry.event, entry.at)
            self._line.see(entry)
            if tell:
                self._watch.event(entry)

    def _running(self) -> Iterator[tuple[str, int]]:
        for number in self.state.running:
            yield self.state.specs[number].id, self.state.tasks[number].attempts

    def _skip_logs(self) -> None:
        """What running attempts wrote before is not shown again, but for its end."""
        for task, attempt in self._running():
            path = os.path.join(self._logs, log_name(task, attempt))
            if os.path.exists(path):
                self._read[task, attempt] = max(0, os.path.getsize(path) - 1000)

    def _output(self) -> Iterator[tuple[str, int, bytes]]:
        """What running attempts have written since the last look."""
        for task, attempt in self._running():
            after = self._read.get((task, attempt), 0)
            try:
                with open(os.path.join(self._logs, log_name(task, attempt)), "rb", opener=private) as file:
                    file.seek(after)
                    data = file.read(_PIECE)
            except OSError:
                continue
            if data:
                self._read[task, attempt] = after + len(data)
                yield task, attempt, data


def awaited(wanted: str, state: str, say: Callable[[str], object]) -> str:
    """The id of a run, once it has begun: one that waits in the queue is waited for. Raises NotFound, UsageError for
    one that never begins, and KeyboardInterrupt for Ctrl-C."""
    told = ""
    while True:
        try:
            return look(wanted, state).row.run
        except NotFound as error:
            queued = _item(wanted, state, error)
        if queued.status in ("failed", "cancelled"):
            raise UsageError(f"run {queued.run} did not begin: {queued.reason or queued.status}", NextStep("queue"))
        before = f", {queued.ahead} before it" if queued.ahead else ""
        reason = f": {queued.reason}" if queued.reason else ""
        if (text := f"run {queued.run} is {queued.status} in the queue{before}{reason}") != told:
            say(harmless(text))
            told = text
        time.sleep(POLL)


def _item(run: str, state: str, missing: NotFound) -> Item:
    """The item of a run in the queue. Raises ``missing`` where there is none."""
    try:
        return item(run, state)
    except NotFound:
        raise missing from None


def attach(wanted: str, state: str | None, screen: Terminal) -> int:
    """Show a run live until it ends or pauses; its exit code. Raises NotFound, and KeyboardInterrupt for Ctrl-C."""
    directory = find_state(None, state)
    with closing(open_journal(directory, readonly=True)) as journal:
        return exit_code(Attachment(journal, journal.find_run(wanted), directory, screen).follow())
