"""The page of one run: as it is, as it was, live, and the forms that steer it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from planrunner.app.history.show import logs, look, read_log
from planrunner.app.runs import rerun, rollback
from planrunner.errors import UsageError
from planrunner.service.context import HereProject, HereVisitor, Project, Runner, Visitor, behalf
from planrunner.service.following import HereFollower, framed
from planrunner.service.forms import HereForm
from planrunner.service.launch import HereLauncher
from planrunner.service.steered import steered
from planrunner.service.stories import HereStories, Reading
from planrunner.service.tailing import Tailing, pieces
from planrunner.views.page.render import rendered
from planrunner.views.page.run import Given, Permit, RunPage, embedded_data, run_page

router = APIRouter(prefix="/{project}/runs", include_in_schema=False)

Json = Any


@router.get("/{run}", response_class=HTMLResponse)
def run_page_of(
    project: HereProject,
    visitor: HereVisitor,
    stories: HereStories,
    follower: HereFollower,
    run: str,
    at: int | None = None,
    task: str = "",
    rows: str = "",
) -> Response:
    """The run; ``at`` shows it after that entry, ``task`` opens a drawer, ``rows=all`` unfolds everything."""
    with stories.reading(project, run) as reading:
        page = _page(visitor, reading, at, task, rows == "all")
        shown = framed(follower, project, visitor, "runs", "run.js")
        return HTMLResponse(rendered("run.html", shown, page=page, data=embedded_data(page)))


def _page(visitor: Visitor, reading: Reading, at: int | None, task: str, whole: bool) -> RunPage:
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


@router.get("/{run}/stream")
async def stream(
    request: Request, project: HereProject, visitor: HereVisitor, follower: HereFollower, run: str, after: int = 0
) -> StreamingResponse:
    """Says that the run has new entries, with the number of the last one, as server-sent events. What a reader was too
    slow for is said once: it asks for the page as it is then."""

    async def told() -> AsyncIterator[str]:
        seen = after
        yield "retry: 2000\n\n"
        while await follower.beyond(run, seen):
            seen = follower.summaries.last_seq(run)
            yield f"id: {seen}\nevent: seq\ndata: {seen}\n\n"
            if await request.is_disconnected():
                return

    return StreamingResponse(told(), media_type="text/event-stream")


@router.get("/{run}/tail")
async def tail(
    request: Request, project: HereProject, visitor: HereVisitor, follower: HereFollower, run: str, task: str
) -> StreamingResponse:
    """What a task that runs prints, as it comes: ``reset`` with each attempt, ``text``, ``dropped`` where more came
    than a reader takes, ``end``."""
    tailing = Tailing(project.state, run, task)

    async def told() -> AsyncIterator[str]:
        async for name, data in pieces(tailing, lambda: follower.summaries.last_seq(run)):
            yield f"event: {name}\ndata: {json.dumps(data) if name == 'text' else data}\n\n"
            if await request.is_disconnected():
                return

    return StreamingResponse(told(), media_type="text/event-stream")


@router.get("/{run}/log")
def log(project: HereProject, visitor: HereVisitor, run: str, task: str = "", attempt: int | None = None) -> Response:
    """The whole log of a task with all it holds, or of every task, as plain text."""
    with behalf(visitor, project):
        found = logs(look(run, project.state), task or None, attempt)

    def text() -> Iterator[bytes]:
        for each in found:
            yield f"── {each.task}, attempt {each.attempt}\n".encode()
            yield from read_log(each)
            yield b"\n"

    safe = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    return StreamingResponse(text(), media_type="text/plain; charset=utf-8", headers=safe)


@router.post("/{run}/pause")
def pause(project: HereProject, visitor: Runner, form: HereForm, run: str) -> Response:
    """Let running tasks finish, start no more, and pause the run."""
    steered(visitor, project, run, "pause", {"reason": form.get("reason", "")})
    return _back(project, run)


@router.post("/{run}/resume")
def resume(project: HereProject, visitor: Runner, form: HereForm, launcher: HereLauncher, run: str) -> Response:
    """Continue a run that no process acts on."""
    launcher.go_on(visitor, project, run)
    return _back(project, run)


@router.post("/{run}/retry")
def retry(project: HereProject, visitor: Runner, form: HereForm, launcher: HereLauncher, run: str) -> Response:
    """Retry what failed."""
    launcher.again(visitor, project, rerun.RerunRequest(run, tuple(form.every("task")), retry=True))
    return _back(project, run)


@router.get("/{run}/cancel", response_class=HTMLResponse)
def ask_cancel(project: HereProject, visitor: Runner, follower: HereFollower, stories: HereStories, run: str) -> str:
    """What cancelling would stop, with the form that does it."""
    with stories.reading(project, run) as reading:
        shown = framed(follower, project, visitor, "runs")
        return rendered("run-cancel.html", shown, page=_page(visitor, reading, None, "", False))


@router.post("/{run}/cancel")
def cancel(project: HereProject, visitor: Runner, form: HereForm, launcher: HereLauncher, run: str) -> Response:
    """End the run; ``how=now`` kills running tasks and skips ``finally``."""
    launcher.cancel(visitor, project, run, form.get("reason", ""), form.get("how") == "now")
    return _back(project, run)


@router.get("/{run}/rollback", response_class=HTMLResponse)
def ask_rollback(project: HereProject, visitor: Runner, follower: HereFollower, stories: HereStories, run: str) -> str:
    """What a rollback would undo, in its order, with the form that does it."""
    with behalf(visitor, project):
        planned = rollback.preview(rollback.RollbackRequest(run), project.state)
    with stories.reading(project, run) as reading:
        shown = framed(follower, project, visitor, "runs")
        page = _page(visitor, reading, None, "", False)
        return rendered("run-rollback.html", shown, page=page, planned=planned)


@router.post("/{run}/rollback")
def roll_back(project: HereProject, visitor: Runner, form: HereForm, launcher: HereLauncher, run: str) -> Response:
    """Undo what the run did, or the chosen tasks of it."""
    only = tuple(form.every("task")) if form.get("part") else ()
    launcher.roll_back(visitor, project, rollback.RollbackRequest(run, only=only, comment=form.get("reason", "")))
    return _back(project, run)


def _back(project: Project, run: str) -> Response:
    return RedirectResponse(f"/{project.name}/runs/{quote(run)}", 303)
