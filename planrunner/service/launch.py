"""Runs that the service starts and continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request

from planrunner.app.people.gates import Voted
from planrunner.app.runs import rollback
from planrunner.app.runs.control import steered_document
from planrunner.app.runs.execute import ExecRequest, Silent
from planrunner.app.runs.host import Host
from planrunner.app.runs.rerun import RerunRequest, rerun
from planrunner.app.runs.rerun import preview as stale_set
from planrunner.app.runs.rollback import RollbackRequest
from planrunner.errors import RunHeld, UsageError
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
    """Starts and continues runs of every project of the service."""

    def __init__(self) -> None:
        self._host = Host()

    def start(self, visitor: Visitor, project: Project, order: Order) -> dict[str, Json]:
        """Start a run for a visitor; the document that tells its id, ``run_id``. Raises what ``execute`` raises for a
        run that cannot start."""
        with behalf(visitor, project):
            run = self._host.start(order.request._replace(state=project.state, unattended=True)).id
        return document_of({"run_id": run, "status": "running"})

    def go_on(self, visitor: Visitor, project: Project, run: str) -> dict[str, Json]:
        """Let a run go on that no process acts on. Raises what ``resume`` raises."""
        with behalf(visitor, project):
            found = self._host.resume(run, project.state).id
        return document_of({"run_id": found, "status": "running"})

    def again(self, visitor: Visitor, project: Project, request: RerunRequest) -> dict[str, Json]:
        """Re-run tasks of a run. Raises what ``rerun`` raises."""
        with behalf(visitor, project):
            found = stale_set(request, project.state, acting=True).run_id
            self._act(lambda: rerun(request._replace(unattended=True), project.state, Silent()))
        return document_of({"run_id": found, "status": "running"})

    def roll_back(self, visitor: Visitor, project: Project, request: RollbackRequest) -> dict[str, Json]:
        """Undo tasks of a run. Raises what ``roll_back`` raises."""
        with behalf(visitor, project):
            found = rollback.preview(request, project.state).run_id
            self._act(lambda: rollback.roll_back(request, project.state, Silent()))
        return document_of({"run_id": found, "status": "running"})

    def cancel(
        self, visitor: Visitor, project: Project, run: str, reason: str = "", now: bool = False
    ) -> dict[str, Json]:
        """Ask a run to end; one that no process acts on is driven to its end. Raises what ``steer`` raises."""
        found = steered(visitor, project, run, "cancel", {"reason": reason, "now": now})
        if not found.held and not found.ended:
            self.go_on(visitor, project, found.run_id)
        return steered_document(found)

    def after_vote(self, visitor: Visitor, project: Project, voted: Sequence[Voted]) -> None:
        """Let a run go on that was decided and that no process acts on."""
        last = voted[-1].steered
        if not last.held and not last.ended:
            with suppress(RunHeld, UsageError):  # another process was quicker
                self.go_on(visitor, project, last.run_id)

    def _act(self, act: Callable[[], object]) -> None:
        threading.Thread(target=copy_context().run, args=(act,), name="planrunner-act").start()

    def close(self) -> None:
        """Pause what goes on, and wait until it stands still."""
        self._host.close()


def the_launcher(request: Request) -> Launcher:
    """The launcher of the service."""
    launcher: Launcher = request.app.state.launcher
    return launcher


HereLauncher = Annotated[Launcher, Depends(the_launcher)]
"""What starts and continues runs."""
