"""The inbox: what waits for people, and the page of one question with the form that decides it."""

from __future__ import annotations

import os
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.app.history.profile import tail_of
from planrunner.app.history.show import Look, look
from planrunner.app.people.gates import look_again, reason_not_allowed
from planrunner.app.queue import asking
from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError, UsageError
from planrunner.machine.questions import find, questions
from planrunner.machine.requests import Vote
from planrunner.plan.expressions.quantities import parse_amount
from planrunner.service.context import Decider, Form, HereForm, frame, require_scope
from planrunner.service.control import Control, HereControl
from planrunner.service.following import Asked, HereReader, Reader
from planrunner.service.problems import Problem, problem_of
from planrunner.views.page.drawer import readable
from planrunner.views.page.figures import sentence
from planrunner.views.page.gate import gate_page
from planrunner.views.page.inbox import OF_PROJECT, Item, address_of, item_of, name_of, project_page, question_page
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
    run, question, mine = asked
    if run is None:
        return item_of(OF_PROJECT, "", question, now, mine)
    return item_of(run.run, run.title or run.plan_id, question, now, mine)


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
    state = found.state
    look_again(state)
    asked, number = find(questions(state, now), name), state.index.get(name)
    comment = "" if form is None else form.get("comment", "")
    may = here.without_scope(asked[0]) or reason_not_allowed(asked[0], state) if asked else ""
    is_decided = not asked and number is not None and state.tasks[number].gate is not None
    if number is not None and (is_decided or (asked and asked[0].kind == "gate")):
        return {**_gate(found, number, form, here.project.state), "may": may, "comment": comment}
    if not asked:
        hint = Hint("it may have been decided: ", NextStep("show", found.row.run))
        raise NotFound(f"run {found.row.run} asks nothing as `{name}`", hint)
    first, log = asked[0], None
    if first.kind == "doubt":
        folder = os.path.join(found.directory, "logs", found.row.run)
        log = tail_of(folder, name, state.tasks[first.task].attempts, TAIL)
    gates = tuple(gate_page(state, found.entries, gate.task, now) for gate in first.gates)
    page = question_page(state, asked, "" if log is None else readable(log.text), gates)
    return {"kind": first.kind, "asks": page, "may": may, "comment": comment}


def _gate(found: Look, number: int, form: Form | None, project_state: str) -> dict[str, Json]:
    """What a gate shows, for the template, whether it waits or is decided."""
    gate, page = found.state.tasks[number].gate, gate_page(found.state, found.entries, number, time.time(), form)
    verdict = "" if gate is None else gate.decision or gate.verdict
    return {
        "kind": "gate",
        "gate": page,
        "outcome_sign": _PUSHED_BACK if page.outcome.startswith("pushed back") else _DECIDED.get(verdict, _REJECTED),
        "continues": _continues(found, project_state),
    }


def _question_of_project(here: Reader, name: str) -> dict[str, Json]:
    for question in here.followers.of_project(here.project, 0.0):
        if name_of(question) == name:
            return {"kind": question.kind, "asks": project_page(question)}
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
    control.decide(here.visitor, here.project, run, _vote(name, answer, comment, form))


def _vote(name: str, answer: str, comment: str, form: Form) -> Vote:
    shown = form.get("shown", "")
    if answer in ("reject", "rework"):
        return Vote(name, "reject", reason=comment, shown=shown, rework=answer == "rework")
    if answer not in ("approve", "answer"):
        raise UsageError(f"`{answer}` is not a decision: it is approve, answer, reject or rework")
    if amounts := _amounts(form):
        return Vote(name, "approve", reason=comment, add=amounts)
    fields = {key[2:]: value for key, value in form.items() if key.startswith("f.") and value != ""}
    return Vote(name, "approve", reason=comment, choice=form.get("choice", ""), fields=fields, shown=shown)


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
