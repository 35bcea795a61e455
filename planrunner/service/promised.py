"""The page of a run that was asked for and has not begun: it waits in the queue, or could not start."""

from __future__ import annotations

from contextlib import closing

from fastapi.responses import HTMLResponse

from planrunner.app.follow.follower import Follower
from planrunner.app.queue import asking
from planrunner.app.queue.items import Item
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.service.context import Project, Visitor
from planrunner.service.following import framed
from planrunner.views.page.figures import count
from planrunner.views.page.queue import STATUSES
from planrunner.views.page.render import rendered

SOON = 1
"""Seconds after which a browser asks again."""


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


def promised_page(project: Project, visitor: Visitor, follower: Follower, run: str) -> HTMLResponse | None:
    """The page that stands for a run until its journal begins, and that a browser loads again by itself; None for a run
    that has begun, and for one that the queue does not know either."""
    item = _asked_for(run, project)
    if item is None or _has_begun(item.run, project):
        return None
    ahead = f"{count(item.ahead, 'run')} before it" if item.ahead else ""
    said = item.reason or ahead or ("it begins at any moment" if item.status in ("waiting", "starting") else "")
    sign = STATUSES[item.status]
    values = {"run": item.run, "plan": item.plan.rpartition("/")[2], "sign": sign, "said": said}
    answer = HTMLResponse(rendered("promised.html", framed(follower, project, visitor, "runs"), **values))
    if item.status not in ("failed", "cancelled"):
        answer.headers["Refresh"] = str(SOON)
    return answer
