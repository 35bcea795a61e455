"""Runs that visitors start, steer and decide, through the API and the page. The queue of their project starts and
continues them, which a worker of the service works on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Depends, Request

from planrunner.app.history.show import look
from planrunner.app.people.gates import Voted, decide, roles_of
from planrunner.app.queue import asking
from planrunner.app.queue.items import Act, Item, item_object
from planrunner.app.queue.worker import Worker
from planrunner.app.runs.control import Steered, steer
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.rerun import RerunRequest
from planrunner.app.runs.rollback import RollbackRequest
from planrunner.errors import DENIED, MISMATCH, NO_PLAN, NotFound, RecordMismatch, RunHeld, UsageError
from planrunner.machine.questions import find, questions
from planrunner.machine.requests import Vote
from planrunner.records import Struct
from planrunner.safety.project import FILE
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.problems import Problem
from planrunner.views.documents import document_of

Json = Any

PATIENCE = 10.0
"""Seconds that the process of a run is given to answer."""


class StartRequest(Struct):
    """A run that is asked for: ``request`` with the absolute path of the plan; ``source`` is what it was asked through
    (``api``, ``page``), ``key`` what makes it once."""

    request: ExecRequest
    source: str
    priority: int = 0
    key: str = ""


class Control:
    """Starts, continues and decides runs of every project of the service. Between ``start_work`` and ``close`` a worker
    for each project works off its queue; where another process does that already, it stands by."""

    def __init__(self, projects: Iterable[Project]) -> None:
        self._workers = [Worker(project.root, project.state) for project in projects]

    def start_work(self) -> None:
        """Begin. Raises StorageFailed for a state directory that cannot be used."""
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Pause what goes on, and wait until it stands still."""
        for worker in self._workers:
            worker.close()

    @property
    def problems(self) -> list[str]:
        """What keeps workers from working, for people."""
        return [worker.problem for worker in self._workers if worker.problem]

    def start(self, visitor: Visitor, project: Project, order: StartRequest) -> dict[str, Json]:
        """Put a run into the queue for a visitor; the document that tells its id, ``run_id``. Raises what ``enqueue``
        raises for a run that cannot start, Problem 422 where its key came with another one."""
        decides = "decide" in visitor.scopes
        request = order.request._replace(state=project.state, unattended=True, decides=decides)
        key = f"{visitor.token} {order.key}" if order.key else ""
        try:
            with behalf(visitor, project):
                return _document(asking.enqueue(request, order.source, order.priority, key))
        except RecordMismatch as error:
            raise Problem(422, error.message, error.hint) from None

    def go_on(
        self,
        visitor: Visitor,
        project: Project,
        run: str,
        act: Act = "resume",
        arguments: dict[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Let a run go on that no process acts on: resumed, or retried, re-run or rolled back with the ``arguments`` of
        ``take_up``. Raises what that raises."""
        with behalf(visitor, project):
            return _document(asking.take_up(run, act, arguments, "api", project.state))

    def again(self, visitor: Visitor, project: Project, request: RerunRequest) -> dict[str, Json]:
        """Retry or re-run tasks of a run. Raises as ``go_on``."""
        names = ("tasks", "downstream", "keep_unchanged", "only_failed")
        how = {name: getattr(request, name) for name in names}
        return self.go_on(visitor, project, request.run, "retry" if request.retry else "rerun", how)

    def roll_back(self, visitor: Visitor, project: Project, request: RollbackRequest) -> dict[str, Json]:
        """Undo tasks of a run. Raises as ``go_on``."""
        how = {name: getattr(request, name) for name in ("to", "only", "strict", "comment")}
        return self.go_on(visitor, project, request.run, "rollback", how)

    def cancel(
        self, visitor: Visitor, project: Project, run: str, reason: str = "", now: bool = False
    ) -> dict[str, Json]:
        """Ask a run to end, whether it waits in the queue, runs or stands still. Raises what ``cancel`` raises, and
        Problem where the run refuses."""
        with behalf(visitor, project):
            try:
                item = asking.cancel(run, reason, project.state, now)
                return document_of({"run_id": item.run, "applied": True, "message": _cancelled(item)})
            except NotFound:
                pass  # it was started elsewhere
        found = steered(visitor, project, run, "cancel", {"reason": reason, "now": now})
        if not found.held and not found.ended:
            self.go_on(visitor, project, found.run_id)
        return document_of({"run_id": found.run_id, "applied": True, "message": found.answer.message})

    def cancel_task(self, visitor: Visitor, project: Project, run: str, task: str, reason: str = "") -> Steered:
        """Stop one task, or abandon one that waits for people, which takes the scope ``decide``; a run that waited for
        it goes on. Raises as ``steered``."""
        barred = "" if "decide" in visitor.scopes else "that needs the scope `decide`"
        found = steered(visitor, project, run, "cancel", {"task": task, "reason": reason, "barred": barred})
        if not found.held and not found.ended:
            with behalf(visitor, project):
                if look(found.run_id, project.state).state.status == "blocked":
                    with contextlib.suppress(RunHeld, UsageError):  # another process was quicker
                        asking.take_up(found.run_id, source="api", state=project.state)
        return found

    def decide(self, visitor: Visitor, project: Project, run: str, vote: Vote) -> list[Voted]:
        """Vote for the visitor, and let a run go on that no process acts on. Raises as ``voted``."""
        votes = voted(visitor, project, run, vote)
        last = votes[-1].steered
        if not last.held and not last.ended:
            with behalf(visitor, project):
                _continued(last.run_id, project)
        return votes


def steered(visitor: Visitor, project: Project, run: str, kind: str, body: dict[str, Json]) -> Steered:
    """Ask something of a run for a visitor; empty values of the body are left out. Raises what ``steer`` raises, and
    Problem where the run refuses: 404 for a task that it does not have, else 409."""
    with behalf(visitor, project):
        found = steer(run, kind, {name: value for name, value in body.items() if value}, project.state, PATIENCE)
    if not found.answer.applied:
        raise Problem(404 if found.answer.code == NO_PLAN else 409, f"run {found.run_id}: {found.answer.message}")
    return found


def voted(visitor: Visitor, project: Project, run: str, vote: Vote) -> list[Voted]:
    """Vote at a gate for the visitor, whose name and roles are those of the token: a request cannot claim others.

    Raises what ``decide`` raises, and Problem where the vote was refused: 409 for a gate that is decided or shows
    another thing, 403 for a person who may not decide it.
    """
    if vote.roles and visitor.token:
        raise Problem(403, "roles are those of the token", "leave `roles` out")
    with behalf(visitor, project):
        if not vote.shown:
            _require_budget(project, run, vote.gate)
        votes = decide(run, vote._replace(roles=vote.roles or visitor.principal.roles), project.state)
    refused = next((one for one in votes if not one.steered.answer.applied), None)
    if refused is not None:
        answer = refused.steered.answer
        status = 403 if answer.code == DENIED else 409
        hint = "look at the gate again" if answer.code == MISMATCH else ""
        if answer.code == DENIED and (lost := _lost_roles(visitor, project)):
            who = visitor.principal.name
            hint = f"the role `{lost}` of the token counts once {FILE} gives it to `{who}` under `people`"
        raise Problem(status, f"run {refused.steered.run_id}: {answer.message}", hint)
    return votes


def _lost_roles(visitor: Visitor, project: Project) -> str:
    """The first role of a token that the project does not give to its bearer; empty where it gives all."""
    known = roles_of(visitor.principal, project.root)
    return next((role for role in visitor.principal.roles if role not in known), "")


def _require_budget(project: Project, run: str, gate: str) -> None:
    """Only a budget is decided by its name alone. Raises Problem for anything else."""
    asked = questions(look(run, project.state).state, time.time())
    if not any(question.kind == "budget" for question in find(asked, gate)):
        raise Problem(422, "`shown` is missing: the digest of what the gate showed", "look at the gate: it has `shown`")


def _continued(run: str, project: Project) -> None:
    """Let a run go on that was decided. One that is in the queue does so by itself."""
    try:
        asking.item(run, project.state)
    except NotFound:
        with contextlib.suppress(RunHeld, UsageError):  # another process was quicker
            asking.take_up(run, source="api", state=project.state)


def _document(item: Item) -> dict[str, Json]:
    return document_of({"run_id": item.run}, item_object(item))


def _cancelled(item: Item) -> str:
    return "it has left the queue" if item.status == "cancelled" and item.begun is None else "what is open is cancelled"


async def the_control(request: Request) -> Control:
    """What starts and steers the runs of the service."""
    control: Control = request.app.state.control
    return control


HereControl = Annotated[Control, Depends(the_control)]
"""What starts, continues and decides runs."""
