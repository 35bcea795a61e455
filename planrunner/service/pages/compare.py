"""Two runs or two revisions side by side, and a run again with other parameters beside the one before."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.follow.summary import Summary
from planrunner.app.history.compare import compared_revisions, compared_runs
from planrunner.app.history.show import look
from planrunner.app.runs.execute import ExecRequest
from planrunner.errors import PlanrunnerError, UsageError
from planrunner.machine.state import State
from planrunner.service.context import HereForm, Runner
from planrunner.service.control import HereControl, StartRequest
from planrunner.service.following import HereReader, Reader
from planrunner.service.pages.run import begun_or_queued
from planrunner.service.plans import plan_of, plan_of_run
from planrunner.views.page.compare import revisions_page, runs_page
from planrunner.views.page.fields import Field, fields_of, given_of, written
from planrunner.views.page.figures import moment, sentence
from planrunner.views.page.render import query_of, rendered
from planrunner.views.page.signs import run_sign

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)

CHOICES = 50
"""Runs that the form offers."""
_PARAM = "p."
"""What stands before the names of parameters in the form."""

RunName = Annotated[str, Query(max_length=200)]


@router.get("/compare", response_model=None, response_class=HTMLResponse)
def compare(here: HereReader, one: RunName = "", other: RunName = "", run: RunName = "", all: bool = False) -> Response:
    """Two runs (``one``, ``other``), two revisions of a ``run``, or the form that asks which."""
    with here.behalf():
        if run:
            return HTMLResponse(_revisions(here, run, (one, other)))
        if one and other:
            pair = (one, other)
            return begun_or_queued(here, pair, lambda: HTMLResponse(_runs(here, pair, all)))
    return HTMLResponse(_asking(here, one, other))


def _runs(here: Reader, names: tuple[str, str], whole: bool, problem: str = "") -> str:
    made = compared_runs(*names, here.project.state)
    again = _again(here, look(made.other.run_id, here.project.state).state) if "run" in here.visitor.scopes else ()
    page = {"runs": runs_page(made, whole), "revisions": None, "again": again, "problem": problem, "now": time.time()}
    return rendered("compare.html", here.frame("runs"), **page)


def _revisions(here: Reader, run: str, numbers: tuple[str, str]) -> str:
    """Two revisions of a run; where none are named, the last two."""
    if not all(number.isdecimal() and len(number) < 7 for number in numbers if number):
        raise UsageError("revisions are named by their numbers, from 1")
    latest = look(run, here.project.state).state.revision
    other = int(numbers[1] or latest)
    one = int(numbers[0] or max(1, other - 1))
    page = revisions_page(compared_revisions(run, one, other, here.project.state))
    values = {"runs": None, "revisions": page, "again": (), "problem": "", "now": time.time()}
    return rendered("compare.html", here.frame("runs"), **values)


def _asking(here: Reader, one: str, other: str) -> str:
    now = time.time()
    listed = here.follower.summaries.page(limit=CHOICES).runs
    choices = [(each.run, _choice(each, now)) for each in listed]
    picked = [run for run, _ in choices]
    first = one or (picked[1] if picked[1:] else "")
    values = {"runs": None, "revisions": None, "choices": choices, "one": first, "other": other or "".join(picked[:1])}
    return rendered("compare.html", here.frame("runs"), problem="", now=now, **values)


def _choice(summary: Summary, now: float) -> str:
    """A run as the form names it."""
    word = run_sign(summary.status, summary.reason).word
    return f"{summary.title or summary.plan_id} · {word} · {moment(summary.created, now)}"


def _again(here: Reader, state: State) -> tuple[Field, ...]:
    """The parameters of a run as fields of the form that starts another one; none where its plan is gone."""
    try:
        plan_of(here.project, plan_of_run(here.project, state))
    except PlanrunnerError:
        return ()
    params = state.plan.params
    return fields_of(params, _PARAM, {each.name: written(each, state.params.get(each.name)) for each in params})


@router.post("/compare", response_class=HTMLResponse)
def run_again(here: HereReader, visitor: Runner, control: HereControl, form: HereForm) -> Response:
    """Start the plan of a run again with the parameters of the form, and show both side by side."""
    with here.behalf():
        found = look(form.get("other", ""), here.project.state)
        given = given_of(form, _PARAM, found.state.plan.params)
        request = ExecRequest(plan_of(here.project, plan_of_run(here.project, found.state)), tuple(given.items()))
        try:
            started = control.start(here.visitor, here.project, StartRequest(request, "page"))
        except UsageError as error:
            names = (found.row.run, found.row.run)
            return HTMLResponse(_runs(here, names, False, sentence(error.message)), 422)
    to = query_of(one=found.row.run, other=str(started["run_id"]))
    return RedirectResponse(f"/{here.project.name}/compare{to}", 303)
