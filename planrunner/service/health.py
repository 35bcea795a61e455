"""Whether the service lives, and whether it can do its work."""

from __future__ import annotations

from fastapi import APIRouter, Request

from planrunner.journal.workspace import check_state
from planrunner.service.context import Project
from planrunner.service.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get("/livez")
def livez() -> dict[str, str]:
    """It answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> dict[str, str]:
    """It is not stopping, and the state directory of every project that has one can be used. Raises Problem 503."""
    if request.app.state.stopping:
        raise Problem(503, "the service is stopping")
    projects: dict[str, Project] = request.app.state.projects
    for project in projects.values():
        try:
            check_state(project.state)
        except FileNotFoundError:
            continue  # nothing has run yet
    return {"status": "ok"}
