"""The story of a recorded run, and what its time went to."""

from __future__ import annotations

from contextlib import closing

from planrunner.app.history.show import Look, look
from planrunner.app.history.state import begun
from planrunner.app.runs.doubts import rest
from planrunner.journal.stores import open_journal
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
