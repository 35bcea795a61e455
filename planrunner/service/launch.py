"""Runs that the service starts and continues: by the queue of their project, which a worker of the service works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request

from planrunner.app.people.gates import Voted
from planrunner.app.queue import asking
from planrunner.app.queue.items import Act, Item, item_object
from planrunner.app.queue.worker import Worker
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.rerun import RerunRequest
from planrunner.app.runs.rollback import RollbackRequest
from planrunner.errors import NotFound, RunHeld, UsageError
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.steered import steered
from planrunner.views.documents import document_of

Json = Any


class Order(NamedTuple):
    """A run that is asked for: ``request`` with the absolute path of the plan; ``source`` is what it was asked through
    (``api``, ``page``), ``key`` what makes it once."""

    request: ExecRequest
    source: str
    priority: int = 0
    key: str = ""


class Launcher:
    """Starts and continues runs of every project of the service. Between ``start_work`` and ``close`` a worker for each
    project works off its queue; where another process does that already, it stands by."""

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

    def start(self, visitor: Visitor, project: Project, order: Order) -> dict[str, Json]:
        """Put a run into the queue for a visitor; the document that tells its id, ``run_id``. Raises what ``enqueue``
        raises for a run that cannot start."""
        request = order.request._replace(state=project.state, unattended=True)
        key = f"{visitor.token} {order.key}" if order.key else ""
        with behalf(visitor, project):
            return _document(asking.enqueue(request, order.source, order.priority, key))

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

    def after_vote(self, visitor: Visitor, project: Project, voted: Sequence[Voted]) -> None:
        """Let a run go on that was decided. One that is in the queue does so by itself."""
        last = voted[-1].steered
        if last.held or last.ended:
            return
        with behalf(visitor, project):
            try:
                asking.item(last.run_id, project.state)
            except NotFound:
                _taken_up(last.run_id, project)


def _taken_up(run: str, project: Project) -> None:
    try:
        asking.take_up(run, source="api", state=project.state)
    except (RunHeld, UsageError):
        return  # another process was quicker


def _document(item: Item) -> dict[str, Json]:
    return document_of({"run_id": item.run}, item_object(item))


def _cancelled(item: Item) -> str:
    return "it has left the queue" if item.status == "cancelled" and item.begun is None else "what is open is cancelled"


async def the_launcher(request: Request) -> Launcher:
    """The launcher of the service."""
    launcher: Launcher = request.app.state.launcher
    return launcher


HereLauncher = Annotated[Launcher, Depends(the_launcher)]
"""What starts and continues runs."""
