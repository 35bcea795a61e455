"""Gates: what waits for people, and what they say."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from planrunner.app.people.gates import Voted, vote_document, waiting, waiting_among, waiting_document
from planrunner.app.people.questions import project_questions
from planrunner.service.api.answers import Answer, Body, Limit, Name, api_router, shaped
from planrunner.service.context import Decider, HereProject, HereVisitor, behalf
from planrunner.service.control import Ballot, HereControl
from planrunner.service.following import HereFollower
from planrunner.views.documents import listing

Json = Any

router = api_router("gates")

_WAITING = shaped("What waits, with payload and evidence.", "gates", "windows", "decided")
_PAGE = shaped("A page of what waits, with payload and evidence.", "gates", "windows", "decided", "after")
_VOTES = shaped("What became of the vote at each gate that the name means.", "votes")


class Said(Body):
    """What every decision may say."""

    shown: str = Field(min_length=6, max_length=100)
    """The digest `shown` of the gate as it was looked at, or its beginning: nothing else is decided."""
    rationale: str = Field(default="", max_length=20_000)
    """Why; it is kept with the decision."""
    roles: list[str] = []
    """Roles by your own word, where no token says them."""


class Approval(Said):
    """An approval, or more of a budget."""

    shown: str = Field(default="", max_length=100)
    """As for every decision; a budget shows nothing."""
    add: dict[str, float] = {}
    """For a budget: what is added to which limit (`cost` in dollars, `time` in seconds)."""


class Rejection(Said):
    """A rejection; ``rework``: only where it sends the run back to an earlier task."""

    rationale: str = Field(min_length=1, max_length=20_000)
    rework: bool = False
    shown: str = Field(default="", max_length=100)


class Reply(Said):
    """An option that is chosen, or the fields of the form."""

    choice: str = Field(default="", max_length=500)
    fields: dict[str, Json] = {}


@router.get("/gates", responses=_PAGE)
def every_gate(
    visitor: HereVisitor,
    project: HereProject,
    follower: HereFollower,
    after: Annotated[int | None, Query(ge=0, lt=1 << 53)] = None,
    limit: Limit = 25,
) -> Answer:
    """List what waits for a person in all runs, those of the newest first, and on the first page what the project
    itself asks: plans to trust and triggers that would start nothing, with `run_id` null. `after` of an answer asks for
    the next page; null after the last one. Gates of one run are on one page, also where they are more than `limit`."""
    page = follower.summaries.page_waiting(limit, after)
    with behalf(visitor, project):
        of_project = project_questions(project.root) if after is None else []
        found = waiting_among([run.run for run in page.runs], project.state)
        return Answer(waiting_document(found, time.time(), of_project, after=page.after))


@router.get("/runs/{run}/gates", responses=_WAITING)
def gates_of_run(visitor: HereVisitor, project: HereProject, run: Name) -> Answer:
    """List what waits for a decision in one run."""
    with behalf(visitor, project):
        return Answer(waiting_document(waiting(run, project.state), time.time()))


@router.post("/runs/{run}/gates/{gate:path}/approve", responses=_VOTES)
def approve(
    body: Approval, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name
) -> Answer:
    """Approve a gate. The run continues by itself."""
    ballot = Ballot("approve", body.shown, body.rationale, add=body.add, roles=body.roles)
    return _votes(control.decide(visitor, project, run, gate, ballot))


@router.post("/runs/{run}/gates/{gate:path}/reject", responses=_VOTES)
def reject(
    body: Rejection, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name
) -> Answer:
    """Reject a gate. The plan says what follows; the run continues by itself."""
    ballot = Ballot("reject", body.shown, body.rationale, rework=body.rework, roles=body.roles)
    return _votes(control.decide(visitor, project, run, gate, ballot))


@router.post("/runs/{run}/gates/{gate:path}/answer", responses=_VOTES)
def answer(body: Reply, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name) -> Answer:
    """Choose an option of a gate, or fill in its form."""
    ballot = Ballot("approve", body.shown, body.rationale, body.choice, body.fields, roles=body.roles)
    return _votes(control.decide(visitor, project, run, gate, ballot))


def _votes(votes: list[Voted]) -> Answer:
    """What became of the votes."""
    return Answer(listing("votes", map(vote_document, votes)))
