"""Runs steered: paused, continued, cancelled, retried, re-run, revised, rolled back."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from planrunner.app.runs import proposals, revise, rollback
from planrunner.app.runs.control import Steered, steered_document
from planrunner.app.runs.rerun import RerunRequest
from planrunner.app.runs.rerun import preview as stale_set
from planrunner.app.runs.revise import ReviseRequest
from planrunner.app.runs.rollback import RollbackRequest, planned_document
from planrunner.service.api.answers import Body, Name, Named, Why, api_router, shaped
from planrunner.service.context import Decider, HereProject, Project, Runner
from planrunner.service.control import HereControl, steered
from planrunner.service.plans import plan_of
from planrunner.views.documents import document_of
from planrunner.views.revision import declined_document, proposal_object, revision_object

Json = Any

router = api_router("runs")

_STEERED = shaped("What the run answered.", "run_id", "applied", "message")
_TAKEN = shaped("The run goes on as soon as a slot is free.", "run_id", status=202)


class Cancel(Why):
    """``now`` kills running tasks and leaves out what stands under ``finally``."""

    now: bool = False


class More(Why):
    """Amounts that are added to limits: `cost` in dollars, `time` in seconds; of a ``task`` or of the plan."""

    add: dict[str, float] = Field(min_length=1)
    task: str = Field(default="", max_length=500)


class Again(Body):
    """The tasks that run again, and which of those that come after them."""

    tasks: list[Named] = Field(min_length=1, max_length=500)
    downstream: bool = False
    keep_unchanged: bool = False
    only_failed: bool = False


class Retry(Body):
    """The failed tasks to retry; all of them where none is named."""

    tasks: list[Named] = Field(default=[], max_length=500)


class Undo(Body):
    """Everything after the task ``to``, or ``only`` some tasks, or all."""

    to: str = Field(default="", max_length=500)
    only: list[Named] = Field(default=[], max_length=500)
    strict: bool | None = None
    comment: str = Field(default="", max_length=20_000)


class Revise(Why):
    """The plan that the run continues with."""

    plan: str = Field(min_length=1, max_length=500)
    params: dict[str, Json] = {}
    keep_unchanged: bool = False


class Accept(Why):
    """The digest of the plan that the run proposes."""

    digest: str = Field(min_length=6, max_length=100)


@router.post("/runs/{run}/pause", responses=_STEERED)
def pause(body: Why, visitor: Runner, project: HereProject, run: Name) -> Json:
    """Let running tasks finish, start no more, and pause the run."""
    return _told(steered(visitor, project, run, "pause", {"reason": body.reason}))


@router.post("/runs/{run}/resume", status_code=202, responses=_TAKEN)
def resume(visitor: Runner, project: HereProject, control: HereControl, run: Name) -> Json:
    """Continue a run that was interrupted, paused or is decided."""
    return control.go_on(visitor, project, run)


@router.post("/runs/{run}/cancel", responses=_STEERED)
def cancel(body: Cancel, visitor: Runner, project: HereProject, control: HereControl, run: Name) -> Json:
    """Stop a run and end it."""
    return control.cancel(visitor, project, run, body.reason, body.now)


@router.post("/runs/{run}/budget", responses=_STEERED)
def extend(body: More, visitor: Decider, project: HereProject, run: Name) -> Json:
    """Add to limits of a run."""
    asked: dict[str, Json] = {"add": body.add, "reason": body.reason, "scope": body.task}
    return _told(steered(visitor, project, run, "budget", asked))


@router.post("/runs/{run}/cancel/{task:path}", responses=_STEERED)
def cancel_task(body: Why, visitor: Runner, project: HereProject, control: HereControl, run: Name, task: Name) -> Json:
    """Stop one task, or abandon it if it waits for people; the run continues."""
    return _told(control.cancel_task(visitor, project, run, task, body.reason))


@router.post("/runs/{run}/retry", status_code=202, responses=_TAKEN)
def retry(body: Retry, visitor: Runner, project: HereProject, control: HereControl, run: Name) -> Json:
    """Retry tasks that failed, and continue."""
    return control.again(visitor, project, RerunRequest(run, tuple(body.tasks), retry=True))


@router.post("/runs/{run}/rerun", status_code=202, responses=_TAKEN)
def rerun(body: Again, visitor: Runner, project: HereProject, control: HereControl, run: Name) -> Json:
    """Re-run tasks with those that depend on them."""
    return control.again(visitor, project, _again(run, body))


@router.post("/runs/{run}/rerun/preview", responses=shaped("The tasks that would run.", "again", "perhaps", "kept"))
def rerun_preview(body: Again, project: HereProject, run: Name) -> Json:
    """Show what `rerun` would do."""
    return document_of(stale_set(_again(run, body), project.state))


@router.post("/runs/{run}/rollback", status_code=202, responses=_TAKEN)
def roll_back(body: Undo, visitor: Runner, project: HereProject, control: HereControl, run: Name) -> Json:
    """Undo the tasks of a run, the last one first."""
    return control.roll_back(visitor, project, _undo(run, body))


@router.post("/runs/{run}/rollback/preview", responses=shaped("The steps in their order.", "steps", "bare"))
def roll_back_preview(body: Undo, project: HereProject, run: Name) -> Json:
    """Show what `rollback` would undo."""
    return planned_document(rollback.preview(_undo(run, body), project.state))


@router.post("/runs/{run}/revise", responses=shaped("What changed.", "run_id"))
def revise_run(body: Revise, visitor: Runner, project: HereProject, run: Name) -> Json:
    """Give a run its next revision; `resume` continues it. One that overrules gates (`asks_again` and `overruled` of
    the preview) needs the scope `decide` too."""
    request = _revision(project, run, body)._replace(decides="decide" in visitor.scopes)
    return revision_object(revise.revise(request, project.state), True)


@router.post("/runs/{run}/revise/preview", responses=shaped("What would change.", "run_id"))
def revise_preview(body: Revise, project: HereProject, run: Name) -> Json:
    """Show what `revise` would do."""
    request = _revision(project, run, body)
    return revision_object(revise.preview(request, project.state), False)


@router.get("/runs/{run}/proposal", responses=shaped("The plan that the run proposes.", "run_id"))
def proposal(project: HereProject, run: Name) -> Json:
    """Show the plan that a run proposes to continue with."""
    found = proposals.open_proposal(run, project.state)
    return proposal_object(found, proposals.shown(found, project.state))


@router.post("/runs/{run}/proposal/accept", responses=shaped("What changed.", "run_id"))
def accept_proposal(body: Accept, visitor: Decider, project: HereProject, run: Name) -> Json:
    """Accept the plan that a run proposes; `resume` continues it."""
    return revision_object(proposals.accept(run, body.digest, body.reason, project.state), True)


@router.post("/runs/{run}/proposal/decline", responses=shaped("The run keeps its plan.", "run_id"))
def decline_proposal(body: Why, visitor: Decider, project: HereProject, run: Name) -> Json:
    """Decline the plan that a run proposes."""
    return declined_document(proposals.decline(run, body.reason, project.state))


def _told(found: Steered) -> Json:
    return steered_document(found)


def _again(run: str, body: Again) -> RerunRequest:
    return RerunRequest(run, tuple(body.tasks), False, body.downstream, body.keep_unchanged, body.only_failed)


def _revision(project: Project, run: str, body: Revise) -> ReviseRequest:
    plan = plan_of(project, body.plan)
    return ReviseRequest(run, plan, tuple(body.params.items()), body.reason, body.keep_unchanged)


def _undo(run: str, body: Undo) -> RollbackRequest:
    return RollbackRequest(run, body.to, tuple(body.only), body.strict, body.comment)
