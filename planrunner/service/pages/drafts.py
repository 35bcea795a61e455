"""New plans: from a goal, by a template or a model, or from a short beginning."""

from __future__ import annotations

import os
import re
import time
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.drafts.beginnings import BEGINNINGS
from planrunner.app.drafts.draft import DraftRequest
from planrunner.app.plans.edit import is_there
from planrunner.errors import PlanrunnerError
from planrunner.safety.roster import roster_or_none
from planrunner.service.context import HereProject, HereVisitor, Project, Runner, behalf
from planrunner.service.following import HereFollower, Reader, framed
from planrunner.service.forms import HereForm
from planrunner.service.pages.editor import Alert, Draft, shown_editor
from planrunner.service.plans import Drafting, HereDrafts
from planrunner.views.page.render import rendered

router = APIRouter(prefix="/{project}/draft", include_in_schema=False)

WITHOUT = "-"
"""What the form says for a draft without a model."""


@router.get("", response_class=HTMLResponse)
def new(project: HereProject, visitor: Runner, follower: HereFollower, goal: str = "") -> str:
    """Where a new plan begins."""
    return _form(Reader(project, visitor, follower), {"goal": goal})


def _form(reader: Reader, filled: dict[str, str]) -> str:
    project, visitor, follower = reader
    with behalf(visitor, project):
        roster = roster_or_none(project.root)
    return rendered(
        "draft.html",
        framed(follower, project, visitor, "plans"),
        **{"goal": "", "model": "", "path": "", "problem": "", "hint": "", **filled},
        models=roster.models if roster is not None else (),
        beginnings=BEGINNINGS,
    )


@router.get("/open")
def begin(
    project: HereProject,
    visitor: Runner,
    follower: HereFollower,
    path: Annotated[str, Query(max_length=4096)],
    kind: Annotated[str, Query(alias="from", max_length=40)] = "task",
) -> Response:
    """The editor with a beginning, for a file that does not exist yet."""
    path = path.strip()
    try:
        with behalf(visitor, project):
            taken = is_there(path)
    except PlanrunnerError as error:
        filled = {"path": path, "problem": f"{error.message}.", "hint": error.hint}
        return HTMLResponse(_form(Reader(project, visitor, follower), filled), 400)
    begins = {} if taken else {"begin": kind}
    return RedirectResponse(f"/{project.name}/plans/{quote(path)}?{urlencode(begins)}".rstrip("?"), 303)


@router.post("")
def draft(
    project: HereProject, visitor: Runner, follower: HereFollower, drafts: HereDrafts, form: HereForm
) -> Response:
    """Draft a plan for a goal: at once from a template, in the background by a model."""
    goal, model = form.get("goal", "").strip(), form.get("model", WITHOUT)
    with behalf(visitor, project):
        file = os.path.join(project.root, free_path(goal))
    by_model = model != WITHOUT
    drafting = Drafting(goal, model if by_model else "", project, visitor)
    request = DraftRequest(goal, file, model if by_model else None, state=project.state)
    if by_model:
        return RedirectResponse(f"/{project.name}/draft/{drafts.begin(drafting, request)}", 303)
    drafting.work(request)
    return _ended(drafting, Reader(project, visitor, follower))


def free_path(goal: str) -> str:
    """A path for the plan of a goal that the project does not have yet. Raises as ``is_there``."""
    words = re.findall(r"[a-z0-9]+", goal.lower())[:6]
    name = "-".join(words)[:48].strip("-") or "draft"
    number = 1
    while is_there(path := f"plans/{name}{f'-{number}' if number > 1 else ''}.yaml"):
        number += 1
    return path


@router.get("/{name}", response_class=HTMLResponse)
def drafting(
    project: HereProject, visitor: HereVisitor, follower: HereFollower, drafts: HereDrafts, name: str
) -> Response:
    """A draft on its way; the editor once it is there."""
    found = drafts.one(name, project, visitor)
    if found.done.is_set():
        return _ended(found, Reader(project, visitor, follower))
    page = rendered(
        "drafting.html",
        framed(follower, project, visitor, "plans"),
        goal=found.goal,
        model=f"The model {found.model}",
        since=time.time() - found.since,
    )
    return HTMLResponse(page, headers={"refresh": "3"})


def _ended(found: Drafting, reader: Reader) -> Response:
    """What becomes of a draft: the editor with its file, with its text where that has errors, or the form again."""
    if found.error is not None or found.made is None:
        error = found.error
        said = _below(error.message, reader.project) if error is not None else "no plan was drafted"
        hint = _below(error.hint, reader.project) if error is not None else ""
        filled = {"goal": found.goal, "model": found.model, "problem": f"{said}.", "hint": hint}
        return HTMLResponse(_form(reader, filled), 422)
    path = os.path.relpath(found.made.path, reader.project.root)
    if found.path:
        return RedirectResponse(f"/{reader.project.name}/plans/{quote(path)}?drafted=1", 303)
    alert = Alert("bad", f"What {found.made.by} wrote has errors. It is not saved; correct it here.")
    with behalf(reader.visitor, reader.project):
        return shown_editor(Draft(path, found.made.text, "", drafted=True, alert=alert), reader)


def _below(text: str, project: Project) -> str:
    """A message with paths below the project."""
    return text.replace(f"{project.root}/", "")
