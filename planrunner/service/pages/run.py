"""The page of one run: as it is, as it was, live, and the forms that steer it; and the page that stands for a run while
it waits in the queue, or could not start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.history.artifacts import found
from planrunner.app.history.artifacts import shown as origin_of
from planrunner.app.people.gates import reason_not_allowed
from planrunner.app.queue import asking
from planrunner.app.queue.items import Item, waiting_reason
from planrunner.app.runs import rerun, rollback
from planrunner.errors import NotFound, UsageError
from planrunner.escapes import harmless
from planrunner.journal.stores import open_journal
from planrunner.machine.questions import questions
from planrunner.machine.state import State
from planrunner.service.context import HereForm, HereProject, Project, Runner, Visitor
from planrunner.service.control import HereControl, steered
from planrunner.service.following import HereReader, Reader
from planrunner.service.histories import HereHistories, Reading
from planrunner.views.page.drawer import text_of
from planrunner.views.page.render import Frame, rendered
from planrunner.views.page.run import Given, Permit, RunPage, embedded_data, run_page

router = APIRouter(prefix="/{project}/runs", include_in_schema=False)

Json = Any

TEXT = 200_000
"""Bytes of an artifact that are shown."""


@router.get("/{run}", response_class=HTMLResponse)
def run_page_of(
    here: HereReader, histories: HereHistories, run: str, at: int | None = None, task: str = "", rows: str = ""
) -> Response:
    """The run; ``at`` shows it after that entry, ``task`` opens a drawer, ``rows=all`` unfolds everything."""
    shown = here.frame("runs", "run.js")

    def begun() -> HTMLResponse:
        with histories.reading(here.project, run) as reading:
            page = _page(here.visitor, reading, at, task, rows == "all")
            page = page._replace(given=page.given._replace(permit=_knowing(page.given.permit, reading.story.state)))
            return HTMLResponse(rendered("run.html", shown, page=page, data=embedded_data(page)))

    with here.behalf():
        return begun_or_queued(here, (run,), begun)


def begun_or_queued(here: Reader, runs: Iterable[str], begun: Callable[[], HTMLResponse]) -> HTMLResponse:
    """What ``begun`` shows of these runs; until their journals begin, the page that a browser loads again by itself.

    Raises NotFound for a run that the queue does not know either.
    """
    try:
        return begun()
    except NotFound:
        asked_for = [item for item in (_asked_for(run, here.project) for run in runs) if item is not None]
        if not asked_for:
            raise
        for item in asked_for:
            if not _has_begun(item.run, here.project):
                return _queued_page(here.frame("runs"), item, here.project)
        return begun()  # the journal began between the two looks


def _queued_page(shown: Frame, item: Item, project: Project) -> HTMLResponse:
    """The page of a run that is in the queue and not in the journal: how it stands there, and what it waits for."""
    why = harmless(waiting_reason(asking.overview(project.state))) if item.status == "waiting" else ""
    return HTMLResponse(rendered("run-queued.html", shown, item=item, why=why, now=time.time()))


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


def _knowing(may: Permit, state: State) -> Permit:
    """What the reader may do, with why they may not decide the gate that the run waits at. Raises as ``roles_of``."""
    gates = [question for question in questions(state, state.now) if question.kind == "gate"]
    return may._replace(barred=reason_not_allowed(gates[0], state)) if len(gates) == 1 and may.decide else may


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
def artifact(here: HereReader, run: str, digest: str) -> str:
    """An artifact of the run: what it is and came from, its text where it is text, and the way to its bytes."""
    with here.behalf():
        origin = origin_of(digest, here.project.state)
        data = _beginning(digest, here.project.state) if origin.stored else b""
    page = here.frame("runs")
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
def ask_rerun(here: HereReader, visitor: Runner, histories: HereHistories, run: str, task: str) -> str:
    """What would run again from a task on, with the form that does it."""
    with histories.reading(here.project, run) as reading:
        stale = rerun.foreseen(reading.story.state, rerun.RerunRequest(run, (task,)))
        page = _page(here.visitor, reading, None, task, False)
        shown = here.frame("runs")
        return rendered("run-rerun.html", shown, page=page, stale=stale, task=task)


@router.post("/{run}/rerun")
def run_again(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Run a task again, and what comes after it as far as that changes."""
    request = rerun.RerunRequest(run, (form.get("task", ""),), downstream=bool(form.get("all")))
    control.again(visitor, project, request)
    return _back(project, run)


@router.get("/{run}/cancel", response_class=HTMLResponse)
def ask_cancel(here: HereReader, visitor: Runner, histories: HereHistories, run: str) -> str:
    """What cancelling would stop, with the form that does it."""
    with histories.reading(here.project, run) as reading:
        shown = here.frame("runs")
        return rendered("run-cancel.html", shown, page=_page(here.visitor, reading, None, "", False))


@router.post("/{run}/cancel")
def cancel(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """End the run; ``how=now`` kills running tasks and skips ``finally``."""
    control.cancel(visitor, project, run, form.get("reason", ""), form.get("how") == "now")
    return _back(project, run)


@router.get("/{run}/rollback", response_class=HTMLResponse)
def ask_rollback(here: HereReader, visitor: Runner, histories: HereHistories, run: str) -> str:
    """What a rollback would undo, in its order, with the form that does it."""
    with here.behalf():
        planned = rollback.preview(rollback.RollbackRequest(run), here.project.state)
    with histories.reading(here.project, run) as reading:
        shown = here.frame("runs")
        page = _page(here.visitor, reading, None, "", False)
        return rendered("run-rollback.html", shown, page=page, planned=planned)


@router.post("/{run}/rollback")
def roll_back(project: HereProject, visitor: Runner, form: HereForm, control: HereControl, run: str) -> Response:
    """Undo what the run did, or the chosen tasks of it."""
    only = tuple(form.every("task")) if form.get("part") else ()
    control.roll_back(visitor, project, rollback.RollbackRequest(run, only=only, comment=form.get("reason", "")))
    return _back(project, run)


def _back(project: Project, run: str) -> Response:
    return RedirectResponse(f"/{project.name}/runs/{quote(run)}", 303)
