"""Plans of a project as requests mean them: the file that an address names, turns to check a text, and drafts: those of
a template at once, those of a model while the page waits."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from planrunner.app.drafts.draft import Draft, DraftRequest, draft, write_draft
from planrunner.app.plans.edit import place_of, require_may_replace
from planrunner.app.plans.path import plan_named
from planrunner.app.plans.places import ENDINGS, require_shown
from planrunner.app.runs.execute import Silent
from planrunner.caller import acting, principal
from planrunner.errors import NotFound, PlanrunnerError, UsageError
from planrunner.machine.state import State
from planrunner.plan.names import plan_name, plan_paths
from planrunner.plan.nearest import nearest
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.problems import Problem

CHECKED = 2
"""Texts that are checked at the same time; each takes a processor."""
PATIENCE = 10.0
"""Seconds that a text waits for its turn."""
KEPT = 50
"""Drafts that stay in memory."""
DRAFTED = 4
"""Drafts that are written at the same time."""


def plan_of(project: Project, path: str) -> str:
    """The absolute path of a plan file by its path below the project, or by its name as on the command line. Raises
    UsageError for a name of several plans, Denied for a path that leads out of the project, NotFound with the nearest
    plan."""
    path = plan_named(path, project.root)
    if not path.endswith(ENDINGS):
        raise _no_plan(path, _plans(project))
    try:
        with acting(principal(), project.place):
            place = place_of(path)
            if os.path.isfile(place):
                require_shown(os.path.relpath(place, project.root))
    except NotFound:
        raise _no_plan(path, _plans(project)) from None
    if not os.path.isfile(place):
        raise _no_plan(path, _plans(project))
    return place


class Author(NamedTuple):
    """Whether a visitor may trust plans; for one who may not, why what they write waits for a person, in words."""

    trusts: bool
    outside: str = ""


def author(visitor: Visitor) -> Author:
    """What a visitor is to the plans that they write."""
    if "admin" in visitor.scopes:
        return Author(True)
    return Author(False, f"it was written with the token `{visitor.principal.name}`, which cannot trust plans")


def _plans(project: Project) -> list[str]:
    """The paths of all plans below the project."""
    return sorted(os.path.relpath(each, project.root) for each in plan_paths(project.root))


def _no_plan(path: str, known: list[str]) -> NotFound:
    names = {plan_name(known_path): known_path for known_path in known}
    near = nearest(path, known) or names.get(nearest(path, names) or "")
    return NotFound(f"the project has no plan `{path}`", f"did you mean `{near}`?" if near else "")


def plan_of_run(project: Project, state: State) -> str:
    """The path below the project of the plan that a run was started with. Raises NotFound where that lies outside, and
    for a plan that came from no file."""
    directory = str(state.environment.get("directory") or project.root)
    place = os.path.normpath(os.path.join(directory, str(state.environment.get("plan") or "")))
    path = os.path.relpath(place, project.root)
    if path == os.curdir or path.startswith(os.pardir):
        raise NotFound(f"the plan of run {state.run_id} is not a file of this project")
    return path


_turns = threading.BoundedSemaphore(CHECKED)


@contextmanager
def checking() -> Iterator[None]:
    """A turn to check a text. Raises Problem 503 where none comes in time."""
    if not _turns.acquire(timeout=PATIENCE):
        raise Problem(503, "too many texts are checked at once", "try again in a moment", headers={"retry-after": "2"})
    try:
        yield
    finally:
        _turns.release()


class Drafting:
    """One draft on its way. ``done`` is set once there is ``made``, with the ``path`` that it was written to (empty for
    one with errors), or an ``error``. ``since`` is in seconds since 1970."""

    def __init__(self, goal: str, model: str, project: Project, visitor: Visitor) -> None:
        self.goal, self.model, self.project, self.visitor = goal, model, project, visitor
        self.since = time.time()
        self.done = threading.Event()
        self.made: Draft | None = None
        self.path = ""
        self.error: PlanrunnerError | None = None

    def work(self, request: DraftRequest) -> None:
        """Draft, and write what has no errors to its file."""
        try:
            with behalf(self.visitor, self.project):
                if not author(self.visitor).trusts:
                    require_may_replace(os.path.relpath(str(request.file), self.project.root))
                self.made = draft(request, Silent())
                if self.made.review is not None:
                    self.path = write_draft(self.made)
        except PlanrunnerError as error:
            self.error = error
        except Exception as fault:
            self.error = UsageError(f"the draft ended with a fault: {type(fault).__name__}")
            raise
        finally:
            self.done.set()


class Drafts:
    """The drafts of a service, by ids that cannot be guessed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(DRAFTED)
        self._every: OrderedDict[str, Drafting] = OrderedDict()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn to draft a plan. Raises Problem 503 for one too many."""
        self._take_turn()
        try:
            yield
        finally:
            self._turns.release()

    def begin(self, drafting: Drafting, request: DraftRequest) -> str:
        """Begin a draft in a thread of its own, and give its id. Raises Problem 503 for one too many."""
        self._take_turn()
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._every[name] = drafting
            while len(self._every) > KEPT:
                self._every.popitem(last=False)
        threading.Thread(target=self._work, args=(drafting, request), name="planrunner-draft", daemon=True).start()
        return name

    def one(self, name: str, project: Project, visitor: Visitor) -> Drafting:
        """A draft that this visitor began in this project. Raises Problem 404 for any other."""
        found = self._every.get(name)
        if found is None or found.project != project or found.visitor.principal.name != visitor.principal.name:
            raise Problem(404, "this draft is not there any more", "draft the plan again")
        return found

    def _take_turn(self) -> None:
        if not self._turns.acquire(blocking=False):
            told = f"{DRAFTED} plans are being drafted"
            raise Problem(503, told, "try again when one of them is done", headers={"retry-after": "30"})

    def _work(self, drafting: Drafting, request: DraftRequest) -> None:
        try:
            drafting.work(request)
        finally:
            self._turns.release()


def the_drafts(request: Request) -> Drafts:
    """The drafts of the service."""
    drafts: Drafts = request.app.state.drafts
    return drafts


HereDrafts = Annotated[Drafts, Depends(the_drafts)]
"""The drafts of the service."""
