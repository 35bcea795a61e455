"""Gates: what waits for people, and what they say."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from planrunner.app.people.gates import Voted, vote_document, waiting, waiting_among, waiting_document
from planrunner.app.people.questions import project_questions
from planrunner.machine.requests import Vote
from planrunner.service.api.answers import Body, Limit, Name, api_router, shaped
from planrunner.service.context import Decider, HereProject
from planrunner.service.control import HereControl
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

    def vote(self, gate: str, verdict: Literal["approve", "reject"], **more: Any) -> Vote:
        """The vote that it stands for."""
        return Vote(gate, verdict, reason=self.rationale, shown=self.shown, roles=tuple(self.roles), **more)


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
    project: HereProject,
    follower: HereFollower,
    after: Annotated[int | None, Query(ge=0, lt=1 << 53)] = None,
    limit: Limit = 25,
) -> Json:
    """List what waits for a person in all runs, those of the newest first, and on the first page what the project
    itself asks: plans to trust and triggers that would start nothing, with `run_id` null. `after` of an answer asks for
    the next page; null after the last one. Gates of one run are on one page, also where they are more than `limit`."""
    page = follower.summaries.page_waiting(limit, after)
    of_project = project_questions(project.root) if after is None else []
    found = waiting_among([run.run for run in page.runs], project.state)
    return waiting_document(found, time.time(), of_project, after=page.after)


@router.get("/runs/{run}/gates", responses=_WAITING)
def gates_of_run(project: HereProject, run: Name) -> Json:
    """List what waits for a decision in one run."""
    return waiting_document(waiting(run, project.state), time.time())


@router.post("/runs/{run}/gates/{gate:path}/approve", responses=_VOTES)
def approve(
    body: Approval, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name
) -> Json:
    """Approve a gate. The run continues by itself."""
    return _votes(control.decide(visitor, project, run, body.vote(gate, "approve", add=body.add)))


@router.post("/runs/{run}/gates/{gate:path}/reject", responses=_VOTES)
def reject(
    body: Rejection, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name
) -> Json:
    """Reject a gate. The plan says what follows; the run continues by itself."""
    return _votes(control.decide(visitor, project, run, body.vote(gate, "reject", rework=body.rework)))


@router.post("/runs/{run}/gates/{gate:path}/answer", responses=_VOTES)
def answer(body: Reply, visitor: Decider, project: HereProject, control: HereControl, run: Name, gate: Name) -> Json:
    """Choose an option of a gate, or fill in its form."""
    vote = body.vote(gate, "approve", choice=body.choice, fields=body.fields)
    return _votes(control.decide(visitor, project, run, vote))


def _votes(votes: list[Voted]) -> Json:
    """What became of the votes."""
    return listing("votes", map(vote_document, votes))
