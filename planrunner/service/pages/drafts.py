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
from planrunner.service.context import HereForm, Runner
from planrunner.service.following import HereReader, Reader
from planrunner.service.pages.editor import Alert, Draft, shown_editor
from planrunner.service.plans import Drafting, HereDrafts
from planrunner.service.problems import Problem, below, problem_of
from planrunner.views.page.render import rendered

router = APIRouter(prefix="/{project}/draft", include_in_schema=False)

WITHOUT = "-"
"""What the form says for a draft without a model."""


@router.get("", response_class=HTMLResponse)
def new(here: HereReader, visitor: Runner, goal: str = "") -> str:
    """Where a new plan begins."""
    return _form(here, {"goal": goal})


def _form(here: Reader, filled: dict[str, str]) -> str:
    with here.behalf():
        roster = roster_or_none(here.project.root)
    return rendered(
        "draft.html",
        here.frame("plans"),
        **{"goal": "", "model": "", "path": "", "problem": "", "hint": "", **filled},
        models=roster.models if roster is not None else (),
        beginnings=BEGINNINGS,
    )


@router.get("/open")
def begin(
    here: HereReader,
    visitor: Runner,
    path: Annotated[str, Query(max_length=4096)],
    kind: Annotated[str, Query(alias="from", max_length=40)] = "task",
) -> Response:
    """The editor with a beginning, for a file that does not exist yet."""
    path = path.strip()
    try:
        with here.behalf():
            taken = is_there(path)
    except PlanrunnerError as error:
        filled = {"path": path, "problem": f"{error.message}.", "hint": error.hint}
        return HTMLResponse(_form(here, filled), 400)
    begins = {} if taken else {"begin": kind}
    return RedirectResponse(f"/{here.project.name}/plans/{quote(path)}?{urlencode(begins)}".rstrip("?"), 303)


@router.post("")
def draft(here: HereReader, visitor: Runner, drafts: HereDrafts, form: HereForm) -> Response:
    """Draft a plan for a goal: at once from a template, in the background by a model."""
    goal, model = form.get("goal", "").strip(), form.get("model", WITHOUT)
    with here.behalf():
        file = os.path.join(here.project.root, free_path(goal))
    by_model = model != WITHOUT
    drafting = Drafting(goal, model if by_model else "", here.project, here.visitor)
    request = DraftRequest(goal, file, model if by_model else None, state=here.project.state)
    if by_model:
        return RedirectResponse(f"/{here.project.name}/draft/{drafts.begin(drafting, request)}", 303)
    drafting.work(request)
    return _ended(drafting, here)


def free_path(goal: str) -> str:
    """A path for the plan of a goal that the project does not have yet. Raises as ``is_there``."""
    words = re.findall(r"[a-z0-9]+", goal.lower())[:6]
    name = "-".join(words)[:48].strip("-") or "draft"
    number = 1
    while is_there(path := f"plans/{name}{f'-{number}' if number > 1 else ''}.yaml"):
        number += 1
    return path


@router.get("/{name}", response_class=HTMLResponse)
def drafting(here: HereReader, drafts: HereDrafts, name: str) -> Response:
    """A draft on its way; the editor once it is there."""
    found = drafts.one(name, here.project, here.visitor)
    if found.done.is_set():
        return _ended(found, here)
    page = rendered(
        "drafting.html",
        here.frame("plans"),
        goal=found.goal,
        model=f"The model {found.model}",
        since=time.time() - found.since,
    )
    return HTMLResponse(page, headers={"refresh": "3"})


def _ended(found: Drafting, here: Reader) -> Response:
    """What becomes of a draft: the editor with its file, with its text where that has errors, or the form again."""
    if found.error is not None or found.made is None:
        problem = Problem(422, "no plan was drafted") if found.error is None else problem_of(found.error)
        problem = below(problem, f"{here.project.root}/")
        filled = {"goal": found.goal, "model": found.model, "problem": f"{problem.detail}.", "hint": problem.hint}
        return HTMLResponse(_form(here, filled), 422)
    path = os.path.relpath(found.made.path, here.project.root)
    if found.path:
        return RedirectResponse(f"/{here.project.name}/plans/{quote(path)}?drafted=1", 303)
    alert = Alert("bad", f"What {found.made.by} wrote has errors. It is not saved; correct it here.")
    with here.behalf():
        return shown_editor(Draft(path, found.made.text, "", drafted=True, alert=alert), here)
