"""What a request stands for: the project it is about, the person who asks, and the form that they sent."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from planrunner.caller import Asking, Principal, Workspace, acting, asked_by, workspace
from planrunner.errors import NotFound, UsageError
from planrunner.journal.workspace import NAME, find_project, find_state
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.safety.tokens import Scope
from planrunner.service.problems import Problem
from planrunner.views.page.render import Frame

FIELDS = 1000
"""Fields that a form may have."""
RESERVED = frozenset({"api", "static", "hooks", "livez", "readyz", "metrics", "sign-in", "sign-out"})
"""First parts of addresses that stand for something else."""


class Project(Struct):
    """A project that the service shows. ``name`` stands in addresses; ``root`` is its directory and ``state`` its state
    directory, both absolute; ``profile`` is the profile of settings that the service was started with."""

    name: str
    root: str
    state: str
    profile: str | None = None

    @property
    def place(self) -> Workspace:
        """Where those who act in it stand."""
        return Workspace(self.root, self.state, self.profile)


def projects_at(directories: Sequence[str], state: str | None = None) -> list[Project]:
    """The projects of directories, of which none means that of the caller. ``state`` is a state directory that was
    chosen. Raises UsageError where one is chosen for several projects."""
    if state and len(directories) > 1:
        raise UsageError("--state names one state directory, and each project has its own", "leave it out")
    if not directories:
        place = find_state(None, state)
        return [_project(find_project(None), place, ())]
    found: list[Project] = []
    for directory in directories:
        root = os.path.abspath(directory)
        if all(each.root != root for each in found):
            found.append(_project(root, os.path.abspath(state) if state else os.path.join(root, NAME), found))
    return found


def _project(root: str, state: str, others: Sequence[Project]) -> Project:
    """Named after the folder, as an address can have it, and unlike the others."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(root)).strip("-.") or "project"
    taken = RESERVED | {each.name for each in others}
    name = next(each for each in (plain, *(f"{plain}-{number}" for number in range(2, 10_000))) if each not in taken)
    return Project(name, root, state, workspace().profile)


class Visitor(Struct):
    """Who asks. ``scopes`` are what they may do, ``projects`` where (None: in all). ``token`` is the id of the token,
    empty for the account of the process; ``form`` is what forms made for this visitor send back; ``asking`` gives the
    processes of this machine that have the connection."""

    principal: Principal
    scopes: frozenset[Scope]
    projects: frozenset[str] | None = None
    token: str = ""
    form: str = ""
    asking: Asking | None = None

    def sees(self, project: str) -> bool:
        """Whether a project is there for this visitor."""
        return self.projects is None or project in self.projects


async def the_visitor(request: Request) -> Visitor:
    """Who asks; the guard of the service has found that out before. Raises Problem 403 for one who may not read."""
    visitor: Visitor = request.scope["visitor"]
    return require_scope(visitor, "read")


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
        return require_scope(visitor, self.scope)


Runner = Annotated[Visitor, Depends(Needs("run"))]
"""Who asks, and may start and steer runs and write plans."""
Decider = Annotated[Visitor, Depends(Needs("decide"))]
"""Who asks, and may decide gates."""
Admin = Annotated[Visitor, Depends(Needs("admin"))]
"""Who asks, and may change what the service does."""


def require_scope(visitor: Visitor, scope: Scope) -> Visitor:
    """The visitor, who has the scope. Raises Problem 403 for any other."""
    if scope not in visitor.scopes:
        have = ", ".join(sorted(visitor.scopes)) or "nothing"
        raise Problem(403, f"this needs the scope `{scope}`; the token of {visitor.principal.name} has {have}")
    return visitor


class Form(dict[str, str]):
    """The fields of a form by name; of fields with the same name the last one. ``every`` has all of a name."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        super().__init__(fields)
        self._fields = fields

    def every(self, name: str) -> list[str]:
        """The values of a field, in their order."""
        return [value for key, value in self._fields if key == name]


async def the_form(request: Request, visitor: HereVisitor) -> Form:
    """The form that was sent, as ``application/x-www-form-urlencoded``. Raises Problem 415 for any other body, 400
    for one that cannot be read, and 403 where the field ``form`` is not the token of the visitor (``Frame.token``)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, f"a form was expected, not `{kind or 'nothing'}`")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None
    form = Form(pairs)
    if not visitor.form or not hmac.compare_digest(form.get("form", "").encode(), visitor.form.encode()):
        raise Problem(403, "this form was not made for you, or you have signed in again since", "load the page again")
    return form


HereForm = Annotated[Form, Depends(the_form)]
"""The form that was sent, checked."""


def _this_process() -> tuple[int, ...]:
    return (os.getpid(),)


@contextmanager
def behalf(visitor: Visitor, project: Project) -> Iterator[None]:
    """Let use cases act for the visitor in the project, in this thread."""
    with acting(visitor.principal, project.place), asked_by(visitor.asking or _this_process):
        yield


def frame(project: Project | None, visitor: Visitor, here: str, *scripts: str) -> Frame:
    """The frame of a page of a project, or of one outside all projects."""
    who = visitor.principal
    name = project.name if project is not None else ""
    base = f"/{name}" if name else ""
    signed = bool(visitor.token)
    shown = Frame(name, base, here, who=who.name, roles=who.roles, scripts=scripts, token=visitor.form, session=signed)
    return shown._replace(may_run="run" in visitor.scopes)
