"""What a request stands for: the project it is about and the person who asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

from fastapi import Depends, HTTPException, Request

from planrunner.caller import Principal, Workspace, acting
from planrunner.views.page.render import Frame


class Project(NamedTuple):
    """A project that the service shows. ``name`` stands in addresses; ``root`` is its directory and ``state`` its state
    directory, both absolute."""

    name: str
    root: str
    state: str


class Visitor(NamedTuple):
    """Who asks. ``scopes`` are what the token allows: ``read``, ``run``, ``decide``, ``admin``."""

    principal: Principal
    scopes: frozenset[str]


def the_project(request: Request, project: str) -> Project:
    """The project of the address. Raises 404 for one that is not served, or not to this visitor."""
    found: Project | None = request.app.state.projects.get(project)
    if found is None:
        raise HTTPException(404, f"no project `{project}` is served here")
    return found


def the_visitor(request: Request) -> Visitor:
    """Who asks."""
    visitor: Visitor = request.app.state.visitor
    return visitor


HereProject = Annotated[Project, Depends(the_project)]
HereVisitor = Annotated[Visitor, Depends(the_visitor)]


@contextmanager
def behalf(visitor: Visitor, project: Project) -> Iterator[None]:
    """Let use cases act for the visitor in the project, in this thread."""
    with acting(visitor.principal, Workspace(project.root, project.state)):
        yield


def frame(project: Project, visitor: Visitor, here: str, *scripts: str) -> Frame:
    """The frame of a page of a project."""
    who = visitor.principal
    return Frame(project.name, f"/{project.name}", here, who=who.name, roles=who.roles, scripts=scripts)
