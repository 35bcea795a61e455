"""The story of a recorded run, what its time went to, and the ends of its logs."""

from __future__ import annotations

import os
from contextlib import closing

from planrunner.app.history.show import Look, look
from planrunner.app.history.state import begun
from planrunner.app.runs.doubts import rest
from planrunner.engine.output import log_name
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import private
from planrunner.views.page.drawer import Tail
from planrunner.views.page.story import Story
from planrunner.views.profile import Profile, profile


def story_of(found: Look) -> Story:
    """The story of a run up to its last entry; one that no process acts on rests."""
    with closing(open_journal(found.directory, readonly=True)) as journal:
        story = Story(begun(journal, found.row.run)).take(found.entries)
    if not found.row.leased:
        rest(story.state)
        story.refresh()
    return story


def profiled(run: str, state: str | None = None) -> Profile:
    """The profile of a run: ``last``, its id or the start of one. Raises NotFound, StorageFailed."""
    found = look(run, state)
    return profile(story_of(found), found.row.run, found.now)


def tail_of(folder: str, task: str, attempt: int, most: int) -> Tail | None:
    """The end of the log of an attempt in a folder of logs: its last lines of ``most`` bytes together, or the end of a
    longer line. None where there is no file."""
    try:
        with open(os.path.join(folder, log_name(task, attempt)), "rb", opener=private) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return None
    if size > most:
        data = data.partition(b"\n")[2] or data
    return Tail(task, attempt, data.decode("utf-8", "replace"), size - len(data), size)
