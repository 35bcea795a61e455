"""The page of one run: as it is, as it was, live, and the forms that steer it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.history.artifacts import found
from planrunner.app.history.artifacts import shown as origin_of
from planrunner.app.runs import rerun, rollback
from planrunner.errors import UsageError
from planrunner.service.context import HereProject, HereVisitor, Project, Runner, Visitor, behalf
from planrunner.service.control import HereControl, steered
from planrunner.service.following import HereFollower, framed
from planrunner.service.forms import HereForm
from planrunner.service.promised import begun_or_queued
from planrunner.service.stories import HereStories, Reading
from planrunner.views.page.drawer import text_of
from planrunner.views.page.render import rendered
from planrunner.views.page.run import Given, Permit, RunPage, embedded_data, run_page

router = APIRouter(prefix="/{project}/runs", include_in_schema=False)

Json = Any

TEXT = 200_000
"""Bytes of an artifact that are shown."""


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
    shown = framed(follower, project, visitor, "runs", "run.js")

    def begun() -> HTMLResponse:
        with stories.reading(project, run) as reading:
            page = _page(visitor, reading, at, task, rows == "all")
            return HTMLResponse(rendered("run.html", shown, page=page, data=embedded_data(page)))

    with behalf(visitor, project):
        return begun_or_queued(project, visitor, follower, (run,), begun)


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


@router.get("/{run}/artifacts/{digest}", response_class=HTMLResponse)
def artifact(project: HereProject, visitor: HereVisitor, follower: HereFollower, run: str, digest: str) -> str:
    """An artifact of the run: what it is and came from, its text where it is text, and the way to its bytes."""
    with behalf(visitor, project):
        origin = origin_of(digest, project.state)
        data = _beginning(digest, project.state) if origin.stored else b""
    page = framed(follower, project, visitor, "runs")
    return rendered("artifact.html", page, run=run, origin=origin, one=origin.version, text=text_of(data), most=TEXT)


def _beginning(digest: str, state: str) -> bytes:
    version, store = found(digest, state)
    with store.open(version.sha256) as file:
        return file.read(TEXT)


@router.post("/{run}/pause")
def pause(project: HereProject, visitor: Runner, form: HereForm, run: str) -> Response:
    """Let running tasks finish, start no more, and pause the run."""
    steered(visitor, project, run, "pause", {"reason": form.get("reason", "")})
    return _back(project, run)


@router.post("/{run}/resume")
def resume(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Continue a run that no process acts on."""
    control.go_on(visitor, project, run)
    return _back(project, run)


@router.post("/{run}/retry")
def retry(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Retry what failed."""
    control.again(visitor, project, rerun.RerunRequest(run, tuple(form.every("task")), retry=True))
    return _back(project, run)


@router.post("/{run}/settle")
def settle(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Say what became of an attempt that was cut off, and continue."""
    pair = [form.get("task", ""), form.get("how", "")]
    control.go_on(visitor, project, run, "resume", {"settle": [pair]})
    return _back(project, run)


@router.get("/{run}/rerun", response_class=HTMLResponse)
def ask_rerun(
    project: HereProject, visitor: Runner, follower: HereFollower, stories: HereStories, run: str, task: str
) -> str:
    """What would run again from a task on, with the form that does it."""
    with stories.reading(project, run) as reading:
        stale = rerun.foreseen(reading.story.state, rerun.RerunRequest(run, (task,)))
        page = _page(visitor, reading, None, task, False)
        shown = framed(follower, project, visitor, "runs")
        return rendered("run-rerun.html", shown, page=page, stale=stale, task=task)


@router.post("/{run}/rerun")
def run_again(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Run a task again, and what comes after it as far as that changes."""
    request = rerun.RerunRequest(run, (form.get("task", ""),), downstream=bool(form.get("all")))
    control.again(visitor, project, request)
    return _back(project, run)


@router.get("/{run}/cancel", response_class=HTMLResponse)
def ask_cancel(project: HereProject, visitor: Runner, follower: HereFollower, stories: HereStories, run: str) -> str:
    """What cancelling would stop, with the form that does it."""
    with stories.reading(project, run) as reading:
        shown = framed(follower, project, visitor, "runs")
        return rendered("run-cancel.html", shown, page=_page(visitor, reading, None, "", False))


@router.post("/{run}/cancel")
def cancel(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """End the run; ``how=now`` kills running tasks and skips ``finally``."""
    control.cancel(visitor, project, run, form.get("reason", ""), form.get("how") == "now")
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
def roll_back(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Undo what the run did, or the chosen tasks of it."""
    only = tuple(form.every("task")) if form.get("part") else ()
    control.roll_back(visitor, project, rollback.RollbackRequest(run, only=only, comment=form.get("reason", "")))
    return _back(project, run)


def _back(project: Project, run: str) -> Response:
    return RedirectResponse(f"/{project.name}/runs/{quote(run)}", 303)
