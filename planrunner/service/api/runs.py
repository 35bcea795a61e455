"""Runs: started, listed, shown, explained, compared."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import Header, Query
from pydantic import Field

from planrunner.app.follow.summaries import STATUSES, RunFilter
from planrunner.app.follow.summary import summary_object
from planrunner.app.history.calls import called, calls_document
from planrunner.app.history.compare import compared_revisions, compared_runs
from planrunner.app.history.digest import DigestRequest, digest
from planrunner.app.history.show import EntryQuery, journal_entries, look, shown_document, wanted, why_task
from planrunner.app.people.questions import project_questions
from planrunner.app.queue.unbegun import unbegun, unbegun_document
from planrunner.app.runs.execute import ExecRequest
from planrunner.errors import NotFound
from planrunner.service.api.answers import Body, Key, Limit, Moment, Name, Named, api_router, shaped
from planrunner.service.context import HereProject, Runner
from planrunner.service.control import HereControl, StartRequest
from planrunner.service.following import HereFollower
from planrunner.service.plans import plan_of
from planrunner.service.problems import Problem
from planrunner.views.budget import budget_document
from planrunner.views.compare import comparison_document, revisions_document
from planrunner.views.digest import digest_object
from planrunner.views.documents import document_of, listing
from planrunner.views.hypotheses import hypotheses_document
from planrunner.views.progress.jsonl import entry_object

Json = Any
Status = Literal["running", "paused", "blocked", "completed", "failed", "cancelled"]

Number = Annotated[int, Query(ge=1, lt=1 << 20)]

router = api_router("runs")


class Start(Body):
    """What a run is started with, as ``planrunner exec`` takes it."""

    plan: str = Field(min_length=1, max_length=500, examples=["plans/release.yaml"])
    """The path of the plan below the directory of the project, or its name."""
    params: dict[str, Json] = {}
    only: list[Named] = Field(default=[], max_length=1000)
    until: list[Named] = Field(default=[], max_length=1000)
    max_parallel: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)
    force: bool = False
    priority: int = Field(default=0, ge=-100, le=100)
    group: str = Field(default="", max_length=200)
    """Of the runs of one group one goes on at a time."""
    overlap: Literal["queue", "skip", "cancel"] = "queue"
    """What happens while another run of the group goes on."""
    trust: str = Field(default="", max_length=100)
    """The digest of a plan from outside the project, or of a drafted one, that may run (scope ``admin``)."""


TraceParent = Annotated[
    str, Header(max_length=200, description="The span in which the run is started, by W3C Trace Context.")
]


@router.post("/runs", status_code=202, responses=shaped("The id of the run.", "run_id", status=202))
def start(
    body: Start,
    visitor: Runner,
    project: HereProject,
    control: HereControl,
    key: Key = "",
    traceparent: TraceParent = "",
) -> Json:
    """Start a run. It is in the queue when the answer comes, and runs as soon as a slot is free."""
    if body.trust and "admin" not in visitor.scopes:
        raise Problem(403, "to trust a plan needs the scope `admin`")
    request = ExecRequest(
        plan_of(project, body.plan),
        tuple(body.params.items()),
        tuple(body.only),
        tuple(body.until),
        body.max_parallel,
        seed=body.seed,
        trust=body.trust,
        forced=body.force,
        traceparent=traceparent,
        group=body.group,
        overlap=body.overlap,
    )
    return control.start(visitor, project, StartRequest(request, "api", body.priority, key))


@router.get("/runs", responses=shaped("Runs, the newest first.", "runs", "after", "counts"))
def runs(
    follower: HereFollower,
    status: Annotated[list[Status], Query()] = [],  # noqa: B006  # FastAPI copies defaults
    plan: Annotated[str, Query(max_length=200)] = "",
    by: Annotated[str, Query(max_length=200)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    since: Moment = None,
    until: Moment = None,
    waiting: bool = False,
    after: Annotated[int | None, Query(ge=0, lt=1 << 53)] = None,
    limit: Limit = 25,
) -> Json:
    """List runs, the newest first. `after` of an answer asks for the next page. Times are seconds since 1970."""
    assert set(status) <= set(STATUSES)
    wanted = RunFilter(tuple(status), plan, by, text, since, until, waiting)
    page, counts = follower.summaries.page(wanted, limit, after), follower.summaries.counts()
    runs = map(summary_object, page.runs)
    return listing("runs", runs, after=page.after, newest=page.newest, counts=counts)


@router.get("/digest", responses=shaped("Progress and blockers.", "totals", "runs"))
def digest_of_runs(project: HereProject, since: Moment = None) -> Json:
    """What happened since a time, one day ago if it is left out, and what stands in the way."""
    start = time.time() - 86_400.0 if since is None else since
    runs = digest(DigestRequest(start, (), project.state))
    return digest_object(runs, start, project_questions(project.root))


@router.get("/runs/{run}", responses=shaped("The run, as `show --json` prints it.", "run_id", "status", "tasks"))
def show(project: HereProject, run: Name) -> Json:
    """Show a run. `run` is an id, the start of one, or `last`. One that has not begun is `queued`."""
    try:
        return shown_document(look(run, project.state))
    except NotFound as missing:
        return unbegun_document(unbegun(run, project.state, missing))


@router.get("/runs/{run}/budget", responses=shaped("What is used, reserved and allowed."))
def budget(project: HereProject, run: Name) -> Json:
    """Show the budgets of a run."""
    return budget_document(look(run, project.state).state, time.time())


@router.get("/runs/{run}/hypotheses", responses=shaped("Each with its evidence.", "hypotheses"))
def hypotheses(project: HereProject, run: Name) -> Json:
    """Show the hypotheses of a run."""
    return hypotheses_document(look(run, project.state).state)


@router.get("/runs/{run}/events", responses=shaped("Entries of the journal.", "events", "after"))
def events(
    project: HereProject,
    run: Name,
    type: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies defaults
    task: Annotated[str, Query(max_length=500)] = "",
    after: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    limit: Limit = 200,
) -> Json:
    """List the events of a run in order. `after` of an answer asks for the next page; null after the last one."""
    query = EntryQuery(tuple(type), task, after, limit + 1)
    found = [entry for _, entry in wanted(query, journal_entries(run, project.state))]
    more = len(found) > limit
    return listing("events", map(entry_object, found[:limit]), after=found[limit - 1].seq if more else None)


@router.get("/runs/{run}/why/{task:path}", responses=shaped("The sentences that explain it.", "why"))
def why(project: HereProject, run: Name, task: Name) -> Json:
    """Explain why a task ran, waited, was skipped or failed."""
    found = look(run, project.state)
    return document_of({"run_id": found.row.run}, why_task(found, task)._asdict())


@router.get("/runs/{run}/inputs/{task:path}", responses=shaped("Each attempt with its call.", "calls"))
def inputs(project: HereProject, run: Name, task: Name) -> Json:
    """Show what each attempt of a task was called with."""
    return calls_document(called(run, task, project.state))


@router.get("/runs/{run}/diff/{other}", responses=shaped("What differs, and from what it follows.", "first", "tasks"))
def diff(project: HereProject, run: Name, other: Name) -> Json:
    """Compare two runs: what went into them, decisions, outcomes, the first difference and what follows from it."""
    return comparison_document(compared_runs(run, other, project.state))


@router.get("/runs/{run}/revisions", responses=shaped("What differs, and what it meant for tasks.", "differences"))
def revisions(project: HereProject, run: Name, one: Number = 1, other: Number = 2) -> Json:
    """Compare two revisions of the plan of a run. `effects` tells what the second meant for each task when it was
    made: `kept`, `again`, `perhaps`, `new`, `asked` or `open`."""
    return revisions_document(compared_revisions(run, one, other, project.state))
