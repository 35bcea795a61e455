"""The page of one run: as it is, as it was, live, and the forms that steer it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from planrunner.app.queue.asking import cancel as cancel_item
from planrunner.app.queue.asking import take_up
from planrunner.app.runs import rerun, rollback
from planrunner.app.runs.control import steer
from planrunner.errors import NextStep, PlanrunnerError, UsageError
from planrunner.service.context import HereProject, HereVisitor, Project, Runner, Visitor, behalf, frame
from planrunner.service.forms import HereForm
from planrunner.service.stories import HereStories, Reading, Stories
from planrunner.views.page.render import rendered
from planrunner.views.page.run import Given, Permit, RunPage, embedded_data, run_page

router = APIRouter(prefix="/{project}/runs", include_in_schema=False)

Json = Any


@router.get("/{run}", response_class=HTMLResponse)
def run_page_of(
    project: HereProject,
    visitor: HereVisitor,
    stories: HereStories,
    run: str,
    at: int | None = None,
    task: str = "",
    rows: str = "",
) -> Response:
    """The run; ``at`` shows it after that entry, ``task`` opens a drawer, ``rows=all`` unfolds everything."""
    with stories.reading(project, run) as reading:
        page = _page(project, visitor, reading, at, task, rows == "all")
        shown = frame(project, visitor, "runs", "run.js")
        return HTMLResponse(rendered("run.html", shown, page=page, data=embedded_data(page)))


def _page(
    project: Project, visitor: Visitor, reading: Reading, at: int | None, task: str, whole: bool
) -> RunPage:
    may = Permit("run" in visitor.scopes, "decide" in visitor.scopes)
    again = _retry(reading) if may.run else None
    return run_page(
        Given(
            reading.story,
            reading.now,
            reading.leased,
            reading.source,
            reading.tail,
            again,
            may,
            at,
            task,
            whole,
        )
    )


def _retry(reading: Reading) -> Mapping[str, Json] | None:
    """What a retry of a run would do; None where there is nothing to retry."""
    state = reading.story.state
    if reading.leased or state.status not in ("failed", "cancelled"):
        return None
    try:
        return rerun.foreseen(state, rerun.RerunRequest(reading.run, retry=True))._asdict()
    except UsageError:
        return None
