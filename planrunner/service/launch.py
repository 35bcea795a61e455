"""Runs that the service starts and continues."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.host import Host
from planrunner.service.context import Project, Visitor, behalf


class Launcher:
    """Starts and continues runs of every project of the service."""

    def __init__(self) -> None:
        self._host = Host()

    def start(self, visitor: Visitor, project: Project, request: ExecRequest) -> str:
        """Start a run for a visitor; its id. Raises what ``execute`` raises for a run that cannot start."""
        with behalf(visitor, project):
            return self._host.start(request._replace(state=project.state, unattended=True)).id

    def go_on(self, visitor: Visitor, project: Project, run: str) -> None:
        """Let a run go on that no process acts on. Raises what ``resume`` raises."""
        with behalf(visitor, project):
            self._host.resume(run, project.state)

    def close(self) -> None:
        """Pause what goes on, and wait until it stands still."""
        self._host.close()


def the_launcher(request: Request) -> Launcher:
    """The launcher of the service."""
    launcher: Launcher = request.app.state.launcher
    return launcher


HereLauncher = Annotated[Launcher, Depends(the_launcher)]
"""What starts and continues runs."""
