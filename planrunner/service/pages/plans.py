"""The plans of a project, and the editor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from planrunner.app.drafts.beginnings import begun
from planrunner.app.follow.summaries import RunFilter, Summaries
from planrunner.app.plans.edit import (
    LARGEST,
    fixed,
    formatted,
    is_there,
    look,
    place_of,
    plain,
    read_text,
    save_text,
)
from planrunner.app.plans.listing import checked, project_files
from planrunner.app.queue.asking import take_up
from planrunner.app.runs.revise import ReviseRequest, revise
from planrunner.errors import NotFound, PlanInvalid, PlanrunnerError, RecordMismatch
from planrunner.service.context import HereProject, HereVisitor, Runner, behalf
from planrunner.service.desk import Alert, Draft, converted_page, draft_of, panels, shown_editor, working
from planrunner.service.following import HereFollower, Reader, framed
from planrunner.service.forms import HereForm
from planrunner.source import notation_of
from planrunner.views.page.editor import notes_data
from planrunner.views.page.links import query_of
from planrunner.views.page.plans import LastRun, PlanRow, plan_lines, tabs
from planrunner.views.page.render import part, rendered
from planrunner.views.page.signs import run_sign

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)

PAGE = 50
"""Plans on one page of the list."""


class TextOfPlan(BaseModel):
    """A text that is not saved. ``run`` is the run that it would revise."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(max_length=4096)
    text: str = Field(max_length=LARGEST)
    run: str = Field(default="", max_length=200)


# The list


@router.get("/plans", response_class=HTMLResponse)
def plans(
    project: HereProject,
    visitor: HereVisitor,
    follower: HereFollower,
    q: Annotated[str, Query(max_length=200)] = "",
    findings: Annotated[str, Query(max_length=20)] = "",
    after: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> HTMLResponse:
    """The plans of the project, by path."""
    with behalf(visitor, project), working():
        files = project_files()
        rows = checked(files)
    words = q.casefold().split()
    fitting = [row for row in rows if all(word in f"{row.title} {row.id} {row.path}".casefold() for word in words)]
    shown = [row for row in fitting if _has(row, findings)]
    here = shown[after : after + PAGE]
    lines = plan_lines(here, last_runs(follower.summaries, [row.id for row in here]))
    more = len(shown) > after + PAGE
    page = rendered(
        "plans.html",
        framed(follower, project, visitor, "plans"),
        rows=lines,
        total=len(files),
        query=q,
        filtered=bool(findings),
        tabs=tabs(fitting, q, findings),
        older=query_of(q=q, findings=findings, after=after + PAGE) if more else "",
        may_edit="run" in visitor.scopes,
        now=time.time(),
    )
    return HTMLResponse(page)


def _has(row: PlanRow, findings: str) -> bool:
    if findings == "errors":
        return bool(row.errors)
    return bool(row.warnings) and not row.errors if findings == "warnings" else True


# The editor


@router.get("/plans/{path:path}", response_class=HTMLResponse)
def plan(
    project: HereProject,
    visitor: HereVisitor,
    follower: HereFollower,
    path: str,
    run: Annotated[str, Query(max_length=200)] = "",
    of: Annotated[Literal["", "run"], Query()] = "",
    begin: Annotated[str, Query(max_length=40)] = "",
    saved: bool = False,
    drafted: bool = False,
    notation: Annotated[Literal["", "yaml", "text", "json"], Query(alias="as")] = "",
) -> HTMLResponse:
    """One plan in the editor: its file, the plan of a ``run`` that it revises, or what a new one begins with."""
    with behalf(visitor, project):
        if begin and not is_there(path):
            draft = Draft(path, begun(path, begin), "")
        else:
            draft = draft_of(path, run, of == "run")
        if saved:
            draft = draft._replace(alert=Alert("ok", "Saved."))
        elif drafted:
            draft = draft._replace(alert=Alert("ok", "Drafted and written to its file. Read it before you trust it."))
        if notation and notation != notation_of(path):
            page = converted_page(draft, project, visitor, notation)
            return HTMLResponse(rendered("plan.html", framed(follower, project, visitor, "plans"), page=page))
        return shown_editor(draft, Reader(project, visitor, follower))


def last_runs(summaries: Summaries, plans: Sequence[str]) -> dict[str, LastRun]:
    """The newest run of each plan that has one, by the id of the plan."""
    counts = summaries.plans()
    found = {}
    for plan in plans:
        newest = summaries.page(RunFilter(plan=plan), 1).runs if counts.get(plan) else ()
        for run in newest:
            found[plan] = LastRun(run.run, run_sign(run.status, run.reason), run.created, counts[plan])
    return found


@router.post("/plans/{path:path}", response_class=HTMLResponse)
def act(project: HereProject, visitor: Runner, follower: HereFollower, path: str, form: HereForm) -> Response:
    """What a button of the editor asks for: check, format, fix, save, revise."""
    draft = Draft(
        path,
        plain(form.get("plan", "")),
        form.get("digest", ""),
        form.get("run", ""),
        form.get("reason", ""),
        drafted=form.get("drafted") == "1",
    )
    reader = Reader(project, visitor, follower)
    what, _, which = form.get("do", "check").partition(":")
    with behalf(visitor, project):
        if what in ("save", "revise"):
            return _save(draft, reader, revising=what == "revise")
        status = 200
        try:
            draft = _changed(draft, what, which)
        except (PlanInvalid, NotFound) as error:
            draft, status = draft._replace(alert=Alert("bad", f"{error.message}. {error.hint}".strip())), 422
        return shown_editor(draft, reader, status)


def _changed(draft: Draft, what: str, which: str) -> Draft:
    """The draft after an action that changes its text. Raises PlanInvalid, NotFound."""
    if what == "tidy":
        return draft._replace(text=formatted(draft.path, draft.text))
    if what == "fix":
        return draft._replace(text=fixed(draft.path, draft.text, which))
    return draft


def _save(draft: Draft, reader: Reader, revising: bool) -> Response:
    """Save, and with ``revising`` give the run its next revision and let it go on."""
    outside = draft.drafted or "admin" not in reader.visitor.scopes
    project = reader.project
    try:
        kept = save_text(draft.path, draft.text, draft.digest, outside)
    except RecordMismatch as error:
        return shown_editor(_overtaken(draft, error), reader, 409)
    address = f"/{project.name}/plans/{quote(draft.path)}"
    if not revising:
        run = {"run": draft.run} if draft.run else {}
        return RedirectResponse(f"{address}?{urlencode({**run, 'saved': 1})}", 303)
    try:
        made = revise(ReviseRequest(draft.run, place_of(draft.path), reason=draft.reason), None)
        take_up(made.run_id)
    except PlanrunnerError as error:
        alert = Alert("bad", f"Saved, but the run was not revised: {error.message}. {error.hint}".strip())
        return shown_editor(draft._replace(digest=kept.digest, alert=alert), reader, 409)
    return RedirectResponse(f"/{project.name}/runs/{quote(made.run_id)}", 303)


def _overtaken(draft: Draft, error: RecordMismatch) -> Draft:
    """The draft beside a file that is another one by now: the next save is over what is shown."""
    try:
        now = read_text(draft.path).digest
    except NotFound:
        now = ""
    text = f"{error.message}, so nothing was saved. Below is what differs; saving again writes your text over it."
    return draft._replace(digest=now, alert=Alert("bad", text))


# While a person types


@router.post("/look")
def look_again(project: HereProject, visitor: HereVisitor, said: TextOfPlan) -> dict[str, Json]:
    """The panels for a text, as HTML, and its findings for the script."""
    started = time.monotonic()
    draft = Draft(said.path, plain(said.text), "", said.run)
    with behalf(visitor, project), working():
        seen = look(draft.path, draft.text)
        values = {**panels(seen, draft), "may_edit": "run" in visitor.scopes, "took": time.monotonic() - started}
    names = ["verdict", "findings", "graph", "preview", *(["stale"] if said.run else [])]
    return {
        "parts": {name: part("plan_parts.html", name, values) for name in names},
        "notes": notes_data(seen.source, seen.findings),
        "starts": seen.plan is not None,
        "graph": seen.sketch is not None,
        "preview": bool(values["facts"]),
    }
