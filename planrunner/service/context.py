"""What a request stands for: the project it is about and the person who asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import NotFound
from planrunner.plan.nearest import nearest
from planrunner.safety.tokens import Scope
from planrunner.service.problems import Problem
from planrunner.views.page.render import Frame


class Project(NamedTuple):
    """A project that the service shows. ``name`` stands in addresses; ``root`` is its directory and ``state`` its state
    directory, both absolute."""

    name: str
    root: str
    state: str


class Visitor(NamedTuple):
    """Who asks. ``scopes`` are what they may do, ``projects`` where (None: in all). ``token`` is the id of the token,
    empty for the account of the process; ``form`` is what forms made for this visitor send back."""

    principal: Principal
    scopes: frozenset[Scope]
    projects: frozenset[str] | None = None
    token: str = ""
    form: str = ""

    def sees(self, project: str) -> bool:
        """Whether a project is there for this visitor."""
        return self.projects is None or project in self.projects


async def the_visitor(request: Request) -> Visitor:
    """Who asks; the guard of the service has found that out before. Raises Problem 403 for one who may not read."""
    visitor: Visitor = request.scope["visitor"]
    return _allowed(visitor, "read")


HereVisitor = Annotated[Visitor, Depends(the_visitor)]
"""Who asks, and may read."""


async def seen_projects(request: Request, visitor: HereVisitor) -> list[Project]:
    """The projects that this visitor sees, by name."""
    every: dict[str, Project] = request.app.state.projects
    return [project for _, project in sorted(every.items()) if visitor.sees(project.name)]


SeenProjects = Annotated[list[Project], Depends(seen_projects)]


async def the_project(seen: SeenProjects, project: str) -> Project:
    """The project of the address. Raises NotFound for one that is not served, or not to this visitor."""
    found = next((each for each in seen if each.name == project), None)
    if found is None:
        near = nearest(project, [each.name for each in seen])
        raise NotFound(f"no project `{project}` is served here", f"did you mean `{near}`?" if near else "")
    return found


HereProject = Annotated[Project, Depends(the_project)]


class Needs:
    """Asks for a visitor who has a scope. Raises Problem 403 for any other."""

    __slots__ = ("scope",)

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, visitor: HereVisitor) -> Visitor:
        return _allowed(visitor, self.scope)


Runner = Annotated[Visitor, Depends(Needs("run"))]
"""Who asks, and may start and steer runs and write plans."""
Decider = Annotated[Visitor, Depends(Needs("decide"))]
"""Who asks, and may decide gates."""
Admin = Annotated[Visitor, Depends(Needs("admin"))]
"""Who asks, and may change what the service does."""


def _allowed(visitor: Visitor, scope: Scope) -> Visitor:
    if scope not in visitor.scopes:
        have = ", ".join(sorted(visitor.scopes)) or "nothing"
        raise Problem(403, f"this needs the scope `{scope}`; the token of {visitor.principal.name} has {have}")
    return visitor


@contextmanager
def behalf(visitor: Visitor, project: Project) -> Iterator[None]:
    """Let use cases act for the visitor in the project, in this thread."""
    with acting(visitor.principal, Workspace(project.root, project.state)):
        yield


def frame(project: Project | None, visitor: Visitor, here: str, *scripts: str) -> Frame:
    """The frame of a page of a project, or of one outside all projects."""
    who = visitor.principal
    name = project.name if project is not None else ""
    base = f"/{name}" if name else ""
    signed = bool(visitor.token)
    return Frame(name, base, here, who=who.name, roles=who.roles, scripts=scripts, token=visitor.form, session=signed)
