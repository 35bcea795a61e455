"""The addresses of the API together, in the order in which they are looked for, and those outside of projects."""

from __future__ import annotations

from fastapi import APIRouter

from planrunner import __version__
from planrunner.caller import Principal
from planrunner.service.api import (
    artifacts,
    gates,
    memory,
    plan_files,
    queue,
    runs,
    steering,
    streams,
    triggers,
)
from planrunner.service.api.answers import Answer, api_router, shaped
from planrunner.service.context import HereVisitor, SeenProjects
from planrunner.views.documents import document_of, listing

router = api_router("projects", prefix="/api/v1")


@router.get("/projects", responses=shaped("The projects that the token sees.", "projects"))
def projects(seen: SeenProjects) -> Answer:
    """List the projects."""
    return Answer(listing("projects", [{"name": project.name} for project in seen]))


@router.get("/me", responses=shaped("Name, roles and scopes.", "name", "scopes"))
def me(visitor: HereVisitor) -> Answer:
    """Who the token stands for, and what it may do."""
    who: Principal = visitor.principal
    return Answer(
        document_of(
            {
                "name": who.name,
                "roles": [*who.roles],
                "scopes": sorted(visitor.scopes),
                "projects": None if visitor.projects is None else sorted(visitor.projects),
                "version": __version__,
            }
        )
    )


ROUTERS: tuple[APIRouter, ...] = (
    router,
    gates.router,
    runs.router,
    steering.router,
    streams.router,
    artifacts.router,
    memory.router,
    plan_files.router,
    queue.router,
    triggers.router,
    triggers.hooks,
)
"""Those of a task or a gate, whose names may have slashes, come after the ones that they could hide."""
