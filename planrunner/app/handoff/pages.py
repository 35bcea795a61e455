"""The pages of a run as files: the report, and the first page of an archive."""

from __future__ import annotations

import os
import time
from typing import Any

from planrunner.app.handoff.readme import VERIFY, Overview, facts
from planrunner.app.history.profile import story_of, tail_of
from planrunner.app.history.show import Look, look
from planrunner.errors import UsageError
from planrunner.records import Struct
from planrunner.views.artifacts import size_text
from planrunner.views.documents import document
from planrunner.views.page.drawer import Tail
from planrunner.views.page.handoff import File, Handoff, handoff_page
from planrunner.views.page.render import Frame, standalone
from planrunner.views.page.run import Given, embedded_data, run_page
from planrunner.views.postmortem import Postmortem

Json = Any

TAIL = 20_000
"""Bytes of the log of an attempt that a report shows: the last ones."""
LOGS = 8_000_000
"""Bytes of all logs in a report; attempts beyond show what the journal keeps of their output."""


def index_page(over: Overview, looked_back: Postmortem) -> str:
    """The first page of an archive."""
    state, plan = over.found.state, over.found.state.plan
    files = tuple(File(each.path, each.about, size_text(each.size)) for each in over.written)
    about = (plan.title or plan.id, plan.description, state.status, state.reason, tuple(facts(over)))
    return handoff_page(Handoff(*about, looked_back, over.decisions, files, VERIFY, over.problems, over.left_out))


def report_page(found: Look, back: str = "") -> str:
    """A run as one file; ``back`` is a page beside it that it leads to."""
    story = story_of(found)
    logs = _Logs(os.path.join(found.directory, "logs", found.row.run))
    return drawn(Given(story, found.now, found.row.leased, found.source, logs, whole=True, alone=True), back)


def drawn(given: Given, back: str = "") -> str:
    """The page of a run as a file of its own."""
    page = run_page(given)
    values = {"page": page, "data": embedded_data(page), "made": time.time(), "back": back}
    return standalone("report.html", Frame(scripts=("run.js",)), **values)


class _Logs:
    """Reads the ends of logs, as many as a file that is opened in a browser can hold."""

    def __init__(self, folder: str) -> None:
        self._folder, self._left = folder, LOGS

    def __call__(self, task: str, attempt: int) -> Tail | None:
        if self._left <= 0:
            return None
        found = tail_of(self._folder, task, attempt, TAIL)
        if found is not None:
            self._left -= found.size - found.hidden
        return found


class Reported(Struct):
    """A report that was written: its place and its bytes."""

    run_id: str
    path: str
    size: int


def report_document(made: Reported) -> dict[str, Json]:
    """A report that was written, as data."""
    return document(**made._asdict())


def report(wanted: str, state: str | None, path: str = "") -> Reported:
    """Write the report of a run (``last``, an id or the start of one) to a file that must not exist; without a path, to
    one named after the run. Raises NotFound, UsageError."""
    found = look(wanted, state)
    target = path or f"{found.row.run}.html"
    data = report_page(found).encode()
    try:
        with open(target, "xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"`{target}` is there already", "name another file with -o") from error
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror}") from error
    return Reported(found.row.run, target, len(data))
