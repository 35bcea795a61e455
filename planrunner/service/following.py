"""What the lists, the inbox and live pages are made of: one follower for each project, and who reads its pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request

from planrunner.app.follow.follower import Follower
from planrunner.app.follow.summary import Summary
from planrunner.app.people.gates import roles_of
from planrunner.app.people.questions import in_order, project_questions
from planrunner.errors import PlanrunnerError
from planrunner.machine.questions import SCOPES, Question, together
from planrunner.records import Struct
from planrunner.service.context import HereProject, HereVisitor, Project, Visitor, behalf, frame
from planrunner.views.page.render import Frame

Json = Any


class Followers:
    """The followers of a service, by the state directory that each of them follows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_state: dict[str, Follower] = {}
        self._asked: dict[str, tuple[float, list[Question]]] = {}

    def of(self, project: Project) -> Follower:
        """The follower of a project; all runs that there are stand in its summaries."""
        with self._lock:
            found = self._by_state.get(project.state)
            if found is None:
                found = self._by_state[project.state] = Follower(project.state)
                found.start()
            return found

    def of_project(self, project: Project, age: float) -> list[Question]:
        """What a project itself asks people, as it was at most ``age`` seconds ago. The caller acts in it."""
        with self._lock:
            found = self._asked.get(project.root)
        now = time.monotonic()
        if found is None or now - found[0] > age:
            found = now, project_questions(project.root)
            with self._lock:
                self._asked[project.root] = found
        return found[1]

    def close(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            every, self._by_state = list(self._by_state.values()), {}
        for follower in every:
            follower.close()


async def the_follower(request: Request, project: HereProject) -> Follower:
    """The follower of the project of the address."""
    followers: Followers = request.app.state.followers
    return followers.of(project)


HereFollower = Annotated[Follower, Depends(the_follower)]
"""What follows the runs of the project of the address."""


_FRESH = 5.0
"""Seconds for which what a project asks is counted on pages other than the inbox."""


class Asked(NamedTuple):
    """A question of a run, or of the project without one, and whether it is for the person who looks."""

    run: Summary | None
    question: Question
    mine: bool


class Reader(Struct):
    """Who reads a page of which project, and what follows its runs and those of others."""

    project: Project
    visitor: Visitor
    follower: Follower
    followers: Followers

    def behalf(self) -> AbstractContextManager[None]:
        """Let use cases act for the reader in the project, in this thread."""
        return behalf(self.visitor, self.project)

    def frame(self, here: str, *scripts: str) -> Frame:
        """The frame of a page of the project, with how much waits for the reader."""
        shown = frame(self.project, self.visitor, here, *scripts)
        return shown._replace(waiting=sum(each.mine for each in self.asked(_FRESH)))

    def asked(self, age: float = 0.0) -> Iterator[Asked]:
        """Every question of the project in the order of ``in_order``; the gates of a review window are one. What the
        project itself asks may have been looked at ``age`` seconds ago."""
        runs = self.follower.summaries.waiting()
        with self.behalf():
            of_project = self.followers.of_project(self.project, age)
        every = in_order(((run, question) for run in runs for question in together(run.questions)), of_project)
        roles, who = self._roles() if every else (), self.visitor.principal.name
        for run, question in every:
            barred = self.without_scope(question) or question.reason_not_allowed(who, roles)
            yield Asked(run, question, not barred)

    def without_scope(self, question: Question) -> str:
        """Why the token of the reader is not for deciding a question; empty where it is."""
        scope, who = SCOPES.get(question.kind, "decide"), self.visitor.principal.name
        return "" if scope in self.visitor.scopes else f"{who} has no token with the scope `{scope}`"

    def _roles(self) -> tuple[str, ...]:
        try:
            return roles_of(self.visitor.principal, self.project.root)
        except PlanrunnerError:  # the project file cannot be read: no vote by a role counts
            return ()


async def the_reader(request: Request, project: HereProject, visitor: HereVisitor, follower: HereFollower) -> Reader:
    """Who reads a page of the project of the address."""
    return Reader(project, visitor, follower, request.app.state.followers)


HereReader = Annotated[Reader, Depends(the_reader)]
"""Who reads a page of the project of the address."""
