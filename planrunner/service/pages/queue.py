"""The page of the queue: what runs, waits and is parked; cancelling an item; pausing and resuming the queue."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.queue import asking
from planrunner.app.queue.items import ENDS, OPEN, item_object, overview_object
from planrunner.app.triggers import showing
from planrunner.app.triggers.showing import Shown, trigger_object
from planrunner.errors import PlanrunnerError, UsageError
from planrunner.service.context import Form, HereForm, Runner, Visitor
from planrunner.service.following import HereReader, Reader
from planrunner.service.problems import Problem, problem_of
from planrunner.views.page.queue import queue_page, trigger_line
from planrunner.views.page.render import rendered

router = APIRouter(prefix="/{project}", include_in_schema=False)

SHOWN = 100
"""Open items of a page."""
OVER = 15
"""Items of a page that are over."""


@router.get("/queue", response_class=HTMLResponse)
def queue(here: HereReader) -> str:
    """The queue of a project."""
    with here.behalf():
        return _page(here)


@router.post("/queue", response_class=HTMLResponse)
def act(here: HereReader, visitor: Runner, form: HereForm) -> Response:
    """Cancel an item, pause or resume the queue; fire, pause or resume a trigger."""
    with here.behalf():
        try:
            _act(here.visitor, form)
        except PlanrunnerError as error:
            problem = problem_of(error)
            return HTMLResponse(_page(here, problem.detail), problem.status)
    return RedirectResponse(f"/{here.project.name}/queue", 303)


def _act(visitor: Visitor, form: Form) -> None:
    """Raises UsageError for a form that asks for nothing known, and Problem 403."""
    what = form.get("do", "")
    if what == "cancel":
        asking.cancel(form.get("run", ""), form.get("reason", ""))
    elif what == "fire":
        showing.fire_now(form.get("trigger", ""))
    elif what in _OF_ADMINS:
        if "admin" not in visitor.scopes:
            raise Problem(403, "pausing and resuming the queue or a trigger needs the scope `admin`")
        _OF_ADMINS[what](form)
    else:
        raise UsageError(f"`{what}` is not something that this page does")


_OF_ADMINS: dict[str, Callable[[Form], object]] = {
    "pause": lambda form: asking.pause(form.get("reason", "")),
    "go-on": lambda form: asking.resume_queue(),
    "pause-trigger": lambda form: showing.pause(form.get("trigger", ""), form.get("reason", "")),
    "resume-trigger": lambda form: showing.go_on(form.get("trigger", "")),
}
"""What a form of this page asks for that needs the scope ``admin``."""


def _page(here: Reader, problem: str = "") -> str:
    overview = asking.overview()
    triggers, wrong = _triggers()
    items = asking.items(OPEN, SHOWN) + asking.items(tuple(ENDS.values()), OVER)
    now = time.time()
    data = [item_object(each) for each in items]
    return rendered(
        "queue.html",
        here.frame("queue"),
        queue=queue_page(data, overview_object(overview), here.project.root, now),
        problem=problem or wrong,
        may="run" in here.visitor.scopes,
        may_pause="admin" in here.visitor.scopes,
        triggers=[trigger_line(trigger_object(each), now, here.project.name) for each in triggers],
    )


def _triggers() -> tuple[list[Shown], str]:
    """The triggers of the project, or what is wrong with its settings."""
    try:
        return showing.shown(), ""
    except PlanrunnerError as error:
        return [], error.message
