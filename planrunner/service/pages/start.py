"""The page that starts a run: a plan, its parameters, and what a run with them would do."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.follow.follower import Follower
from planrunner.app.history.show import look as look_at
from planrunner.app.plans.edit import envelope_of, read_text, why_waits
from planrunner.app.plans.edit import look as look_at_text
from planrunner.app.plans.files import plan_title
from planrunner.app.plans.listing import LARGE
from planrunner.app.runs.execute import ExecRequest
from planrunner.diagnostics import has_errors
from planrunner.errors import NotFound, PlanInvalid, PlanrunnerError
from planrunner.jsontext import as_text
from planrunner.plan.model import Plan
from planrunner.plan.names import plan_paths
from planrunner.plan.nearest import nearest
from planrunner.plan.params import bind_params
from planrunner.service.context import HereForm, Runner
from planrunner.service.control import HereControl, StartRequest
from planrunner.service.following import HereReader, Reader
from planrunner.service.plans import plan_of, plan_of_run
from planrunner.service.problems import Problem, below, problem_of
from planrunner.views.page.fields import given_of
from planrunner.views.page.figures import sentence
from planrunner.views.page.forecast import forecast
from planrunner.views.page.render import rendered
from planrunner.views.page.start import PREFIX, PlanLine, preview_rows, start_page

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)

PATIENCE = 3.0
"""Seconds in which a run begins whose turn it is."""


@router.get("/start", response_class=HTMLResponse)
def start_form(
    here: HereReader, request: Request, plan: str = "", like: str = "", q: str = "", look: bool = False
) -> str:
    """The plans, and the form of one. ``like`` is a run whose plan and parameters are taken over; values in the address
    (``p.NAME``) come before those."""
    given = {key[len(PREFIX) :]: value for key, value in request.query_params.items() if key.startswith(PREFIX)}
    with here.behalf():
        if like:
            plan, known = _of_run(here, like)
            given = {**known, **given}
        asked = {"plan": plan, "like": like, "given": given, "q": q, "look": look}
        return _page(here, {**asked, **_priority(request.query_params)})


def _priority(sent: Any) -> dict[str, str]:
    return {"priority": str(sent.get("priority", "0"))[:8]}


def _of_run(here: Reader, run: str) -> tuple[str, dict[str, str]]:
    """The plan of a run, below the project, and its parameters as text. Raises NotFound."""
    state = look_at(run, here.project.state).state
    given = {name: as_text(value, 1 << 16) for name, value in state.params.items() if value is not None}
    return plan_of_run(here.project, state), given


@router.post("/start", response_class=HTMLResponse)
def start(here: HereReader, visitor: Runner, control: HereControl, form: HereForm) -> Response:
    """Start a run with the values of the form."""
    path = form.get("plan", "")
    given = {key[len(PREFIX) :]: value for key, value in form.items() if key.startswith(PREFIX)}
    asked = {"plan": path, "like": form.get("like", ""), "given": given, **_priority(form)}
    with here.behalf():
        try:
            values = given_of(form, PREFIX, _checked(path, read_text(path).text).params)
            request = ExecRequest(plan_of(here.project, path), tuple(values.items()))
            order = StartRequest(request, "page", _number(form.get("priority", "0")), _key(form))
            run = str(control.start(here.visitor, here.project, order)["run_id"])
        except (Problem, PlanrunnerError) as error:
            problem = below(problem_of(error), f"{here.project.root}/")
            said = " ".join(map(sentence, filter(None, (problem.detail, problem.hint))))
            return HTMLResponse(_page(here, {**asked, "problem": said}), problem.status)
    place = f"runs/{run}" if _begins(here.follower, run) else "queue"
    return RedirectResponse(f"/{here.project.name}/{place}", 303)


def _begins(follower: Follower, run: str) -> bool:
    """Whether a run begins at once; one that does not waits for its turn in the queue."""
    until = time.monotonic() + PATIENCE
    while not follower.summaries.last_seq(run):
        left = until - time.monotonic()
        if left <= 0:
            return False
        follower.wait(follower.summaries.version, min(left, 0.2))
    return True


def _number(text: str) -> int:
    """The priority of a form. Raises Problem 422."""
    try:
        number = int(text.strip() or "0")
    except ValueError:
        raise Problem(422, f"the priority is a whole number from -100 to 100, not `{text[:20]}`") from None
    if not -100 <= number <= 100:
        raise Problem(422, f"the priority is a whole number from -100 to 100, not {number}")
    return number


def _key(form: Any) -> str:
    """What makes a form that is sent twice start one run."""
    return str(form.get("key", ""))[:200]


def _checked(path: str, text: str) -> Plan:
    """The plan of a text. Raises PlanInvalid for one with errors, and as ``look``."""
    seen = look_at_text(path, text)
    if seen.plan is None or has_errors(seen.findings):
        raise PlanInvalid(f"`{path}` has errors", seen.source, seen.findings)
    return seen.plan


def _page(here: Reader, asked: dict[str, Json]) -> str:
    """The page for what was asked: the plan, the run it repeats, values by name, and a problem. Acts within
    ``behalf``."""
    root = here.project.root
    path, given, query = asked["plan"], asked["given"], asked.get("q", "").lower()
    paths = [os.path.relpath(each, root) for each in plan_paths(root)]
    values: dict[str, Json] = {
        "chosen": None,
        "rows": (),
        "hidden": 0,
        "facts": (),
        "unknown": "",
        "problem": "",
        "waits": "",
    }
    if path:
        try:
            values |= _chosen(path, given, asked.get("look", False))
        except PlanInvalid as error:
            values["problem"] = f"{error.message}: {error.findings[0].message}" if error.findings else error.message
        except NotFound as error:
            near = nearest(path, paths)
            values["problem"] = f"{error.message}" + (f"; did you mean `{near}`?" if near else "")
        except PlanrunnerError as error:
            values["problem"] = error.message
    if asked.get("problem"):
        values["problem"] = asked["problem"]
    plans = [PlanLine(each, _title(os.path.join(root, each)), each == path) for each in paths]
    return rendered(
        "start.html",
        here.frame("runs"),
        plans=[plan for plan in plans if all(word in f"{plan.title} {plan.path}".lower() for word in query.split())],
        query=query,
        may="run" in here.visitor.scopes,
        rerun_of=asked["like"],
        priority=asked["priority"],
        **values,
    )


def _title(path: str) -> str:
    """The title of a plan, read once for each state of its file."""
    try:
        return _known_title(path, os.stat(path).st_mtime_ns)
    except OSError:
        return ""


@functools.lru_cache(4096)
def _known_title(path: str, at: int) -> str:
    return plan_title(path)


def _chosen(path: str, given: dict[str, str], previews: bool) -> dict[str, Json]:
    """The form and the preview of a plan with these values. Raises as ``read_text`` and ``_checked``."""
    text = read_text(path).text
    plan = _checked(path, text)
    values = {name: value for name, value in given.items() if value != ""}
    known = {param.name for param in plan.params}
    bound = bind_params(plan, {name: value for name, value in values.items() if name in known})
    problems = bound.problems if given else ()
    shown: dict[str, Json] = {"chosen": start_page(path, plan, given, problems), "waits": why_waits(path)}
    if bound.problems:
        return {**shown, "unknown": "Fill in the parameters to see what a run would do."}
    if len(text) > LARGE and not previews:
        return {
            **shown,
            "unknown": "The plan is large: preview it with these values to see what a run would do.",
        }
    envelope = envelope_of(path, text, tuple(values.items()))
    if envelope.document is None:
        return {**shown, "unknown": envelope.problem}
    rows, hidden = preview_rows(envelope.document)
    return {**shown, "rows": rows, "hidden": hidden, "facts": forecast(envelope.document, envelope.missing)}
