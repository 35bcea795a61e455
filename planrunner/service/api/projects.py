"""The projects, and what the service itself is."""

from __future__ import annotations

from planrunner import __version__
from planrunner.caller import Principal
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
