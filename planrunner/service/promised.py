"""The page of a run that was asked for and has not begun: it waits in the queue, or could not start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing

from fastapi.responses import HTMLResponse

from planrunner.app.follow.follower import Follower
from planrunner.app.queue import asking
from planrunner.app.queue.items import Item, held_up
from planrunner.errors import NotFound
from planrunner.escapes import harmless
from planrunner.journal.stores import open_journal
from planrunner.service.context import Project, Visitor
from planrunner.service.following import framed
from planrunner.views.page.render import Frame, rendered


def _asked_for(run: str, project: Project) -> Item | None:
    try:
        return asking.item(run, project.state)
    except NotFound:
        return None


def _has_begun(run: str, project: Project) -> bool:
    try:
        with closing(open_journal(project.state, readonly=True)) as journal:
            journal.run(run)
    except NotFound:
        return False
    return True


def begun_or_queued(
    project: Project, visitor: Visitor, follower: Follower, runs: Iterable[str], begun: Callable[[], HTMLResponse]
) -> HTMLResponse:
    """What ``begun`` shows of these runs; until their journals begin, the page that a browser loads again by itself.

    Raises NotFound for a run that the queue does not know either.
    """
    try:
        return begun()
    except NotFound:
        asked_for = [item for item in (_asked_for(run, project) for run in runs) if item is not None]
        if not asked_for:
            raise
        for item in asked_for:
            if not _has_begun(item.run, project):
                return _queued_page(framed(follower, project, visitor, "runs"), item, project)
        return begun()  # the journal began between the two looks


def _queued_page(shown: Frame, item: Item, project: Project) -> HTMLResponse:
    """The page of a run that is in the queue and not in the journal: how it stands there, and what it waits for."""
    why = harmless(held_up(asking.overview(project.state))) if item.status == "waiting" else ""
    return HTMLResponse(rendered("run-queued.html", shown, item=item, why=why, now=time.time()))
