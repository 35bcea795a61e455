"""The inbox: what waits for people, and the page of one question with the form that decides it."""

from __future__ import annotations

import os
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.history.show import Look, look
from planrunner.app.history.tails import tail_of
from planrunner.app.people.gates import barred, look_again
from planrunner.app.queue import asking
from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError, UsageError
from planrunner.machine.windows import windows
from planrunner.plan.expressions.quantities import parse_amount
from planrunner.service.context import Decider, Form, HereForm, frame, require_scope
from planrunner.service.control import Ballot, Control, HereControl
from planrunner.service.following import Asked, HereReader, Reader
from planrunner.service.problems import Problem, problem_of
from planrunner.views.gates import waiting_budgets, waiting_doubts, waiting_gates, waiting_watchdogs, watchdog_object
from planrunner.views.page.drawer import readable
from planrunner.views.page.figures import sentence
from planrunner.views.page.gate import gate_page
from planrunner.views.page.inbox import (
    OF_PROJECT,
    Item,
    address_of,
    budget_page,
    doubt_page,
    item_of,
    name_of,
    project_item,
    watchdog_page,
    window_page,
)
from planrunner.views.page.render import query_of, rendered
from planrunner.views.page.signs import Sign

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)

TAIL = 16_384
"""Bytes of the log of a task in doubt that are shown."""

LIMIT = 50
"""Questions of a page."""


@router.get("/inbox", response_class=HTMLResponse)
def inbox(here: HereReader, show: str = "mine", after: int = 0, run: str = "") -> str:
    """What waits; the first of it is shown as a whole. ``run`` asks for the questions of one run."""
    every = [each for each in here.asked() if not run or (each.run is not None and each.run.run == run)]
    show, after = "all" if run else show, max(0, after)
    wanted = every if show == "all" else [each for each in every if each.mine]
    first = _item(wanted[after], time.time()) if after < len(wanted) else None
    if first is None:
        return _page(here, every, show, after, {"kind": ""})
    try:
        with here.behalf():
            shown = _question(here, first.run, first.name)
    except PlanrunnerError as error:  # it was decided meanwhile, or its record cannot be read
        shown = {"kind": "", "problem": error.message}
    return _page(here, every, show, after, {**shown, "chosen": first.address})


@router.get("/inbox/{run}/{name:path}", response_class=HTMLResponse)
def question(here: HereReader, run: str, name: str) -> str:
    """One question: a task in doubt, a gate, a review window, a budget, or a task that runs for long."""
    with here.behalf():
        shown = _question(here, run, name)
    return _page(here, [*here.asked()], "all", 0, {**shown, "chosen": address_of(run, name), "picked": True})


@router.post("/inbox/{run}/{name:path}", response_class=HTMLResponse)
def decide(here: HereReader, run: str, name: str, visitor: Decider, control: HereControl, form: HereForm) -> Response:
    """Decide a question, for exactly what the form shows."""
    if run == OF_PROJECT:
        raise NotFound("what the project asks is not decided here")
    try:
        _decide(here, control, run, name, form)
    except (Problem, PlanrunnerError) as error:
        problem = problem_of(error)
        if problem.status == 404:
            raise
        with here.behalf():
            shown = _question(here, run, name, form)
        more = {"problem": _sentence(problem), "chosen": address_of(run, name), "picked": True}
        return HTMLResponse(_page(here, [*here.asked()], "all", 0, {**shown, **more}), problem.status)
    return RedirectResponse(f"/{here.project.name}{address_of(run, name)}", 303)


def _sentence(problem: Problem) -> str:
    """What was refused, and why, as a sentence."""
    text = sentence(problem.detail)
    changed = problem.status == 409 and "changed" in text
    return f"{text} Nothing was decided; the page shows what is asked at this time." if changed else text


def _item(asked: Asked, now: float) -> Item:
    run, fact, mine = asked
    if run is None:
        return project_item(fact, now, mine)
    return item_of({"id": run.run, "title": run.title or run.plan_id}, fact, fact.get("since"), now, mine)


def _page(here: Reader, every: list[Asked], show: str, after: int, shown: dict[str, Json]) -> str:
    wanted = every if show == "all" else [each for each in every if each.mine]
    values: dict[str, Json] = {"may": "", "problem": "", "comment": "", "chosen": "", "picked": False, **shown}
    mine, now = sum(each.mine for each in every), time.time()
    more = query_of(show=show, after=after + LIMIT) if after + LIMIT < len(wanted) else ""
    return rendered(
        "inbox.html",
        frame(here.project, here.visitor, "inbox")._replace(waiting=mine),
        heading=f"Inbox: {mine} for you" if mine else "Inbox",
        items=[_item(each, now) for each in wanted[after : after + LIMIT]],
        show=show,
        mine=mine,
        total=len(every),
        more=f"/{here.project.name}/inbox{more}" if more else "",
        **values,
    )


_REJECTED, _PUSHED_BACK = Sign("bad", "bad", "Rejected"), Sign("gate", "back", "Pushed back")
_DECIDED = {"approved": Sign("ok", "ok", "Approved"), "passed": Sign("ok", "ok", "Passed")}


def _question(here: Reader, run: str, name: str, form: Form | None = None) -> dict[str, Json]:
    """What a question shows, for the template. Raises NotFound."""
    if run == OF_PROJECT:
        return _question_of_project(here, name)
    found, now = look(run, here.project.state), time.time()
    state, comment = found.state, "" if form is None else form.get("comment", "")
    look_again(state)
    number = state.index.get(name)
    if number is not None and number in waiting_doubts(state):
        folder = os.path.join(found.directory, "logs", found.row.run)
        tail = tail_of(folder, name, state.tasks[number].attempts, TAIL)
        log = "" if tail is None else readable(tail.text)
        may = "" if "run" in here.visitor.scopes else f"{here.visitor.principal.name} has no token with the scope `run`"
        return {"kind": "doubt", "doubt": doubt_page(state, number, log), "may": may}
    if number is not None and state.tasks[number].gate is not None and number not in waiting_watchdogs(state):
        gate = gate_page(state, found.entries, number, now, form)
        decided = state.tasks[number].gate
        verdict = "" if decided is None else decided.decision or decided.verdict
        return {
            "kind": "gate",
            "gate": gate,
            "may": barred(state, number) if gate.waits else "",
            "comment": comment,
            "outcome_sign": _PUSHED_BACK
            if gate.outcome.startswith("pushed back")
            else _DECIDED.get(verdict, _REJECTED),
            "continues": _continues(found, here.project.state),
        }
    opened = windows(state, waiting_gates(state))
    if name in opened:
        window = opened[name]
        pages = tuple(gate_page(state, found.entries, each, now) for each in window.waiting)
        return {"kind": "window", "window": window_page(state, window, pages), "comment": comment}
    if number is not None and number in waiting_watchdogs(state):
        ask = str(watchdog_object(state, number)["ask"])
        return {"kind": "watchdog", "watchdog": watchdog_page(state, number, ask), "comment": comment}
    limits = [each for each in waiting_budgets(state, now) if each.name == name]
    if limits:
        return {"kind": "budget", "budget": budget_page(state, limits), "comment": comment}
    hint = Hint("it may have been decided: ", NextStep("show", found.row.run))
    raise NotFound(f"run {found.row.run} asks nothing as `{name}`", hint)


def _question_of_project(here: Reader, name: str) -> dict[str, Json]:
    for fact in here.followers.of_project(here.project, 0.0):
        if name_of(fact) == name:
            return {"kind": "project", "asks": fact}
    raise NotFound(f"the project asks nothing as `{name}`")


def _continues(found: Look, state: str) -> str:
    if found.row.status:
        return f"The run has ended: {found.row.status}."
    if found.row.leased:
        return "The run is going on."
    if _is_queued(found.row.run, state):
        return "The run continues as soon as a slot is free."
    return "Open the run and resume it: nothing else continues it."


def _is_queued(run: str, state: str) -> bool:
    """Whether a worker continues the run by itself."""
    try:
        return asking.item(run, state).ended is None
    except NotFound:
        return False


# Deciding


def _decide(here: Reader, control: Control, run: str, name: str, form: Form) -> None:
    """Carry out what a form asks, and let the run continue. Raises what the use cases raise, Problem for a vote that is
    refused, and UsageError for a form that lacks something."""
    answer, comment = form.get("decision", ""), form.get("comment", "").strip()
    if answer == "cancel":
        control.cancel_task(require_scope(here.visitor, "run"), here.project, run, name, comment)
        return
    budget = any(key.startswith("add.") for key in form)
    if answer in ("reject", "rework") and not comment and not budget:
        raise UsageError("a rejection needs a comment: say why, for the person or the task that reads it")
    control.decide(here.visitor, here.project, run, name, _ballot(answer, comment, form))


def _ballot(answer: str, comment: str, form: Form) -> Ballot:
    shown = form.get("shown", "")
    if answer in ("reject", "rework"):
        return Ballot("reject", shown, comment, rework=answer == "rework")
    if answer not in ("approve", "answer"):
        raise UsageError(f"`{answer}` is not a decision: it is approve, answer, reject or rework")
    if amounts := _amounts(form):
        return Ballot("approve", reason=comment, add=amounts)
    fields = {key[2:]: value for key, value in form.items() if key.startswith("f.") and value != ""}
    return Ballot("approve", shown, comment, form.get("choice", ""), fields)


def _amounts(form: Form) -> dict[str, float]:
    """What is added to budgets: dollars, seconds or a number. Raises UsageError."""
    amounts: dict[str, float] = {}
    for key, value in form.items():
        what = key.removeprefix("add.")
        if what == key or not value.strip():
            continue
        read = parse_amount(what, value.strip())
        if read is None:
            raise UsageError(f"`{value}` cannot be added to the budget `{what}`")
        amounts[what] = read
    return amounts
