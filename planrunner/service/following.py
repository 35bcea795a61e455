"""What the lists, the inbox and live pages are made of: one follower for each project, started when it is asked for."""

from __future__ import annotations

import threading
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from planrunner.app.follow.follower import Follower
from planrunner.service.context import HereProject, Project, Visitor, frame
from planrunner.views.page.inbox import may_decide, questions
from planrunner.views.page.render import Frame


class Followers:
    """The followers of a service, by the state directory that each of them follows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_state: dict[str, Follower] = {}

    def of(self, project: Project) -> Follower:
        """The follower of a project; all runs that there are stand in its summaries."""
        with self._lock:
            found = self._by_state.get(project.state)
            if found is None:
                found = self._by_state[project.state] = Follower(project.state)
                found.start()
            return found

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


class Reader(NamedTuple):
    """Who looks at which project, and what follows its runs."""

    project: Project
    visitor: Visitor
    follower: Follower


def framed(follower: Follower, project: Project, visitor: Visitor, here: str, *scripts: str) -> Frame:
    """The frame of a page of a project, with how much waits for the person who looks."""
    return frame(project, visitor, here, *scripts)._replace(waiting=waiting_for(follower, visitor))


def waiting_for(follower: Follower, visitor: Visitor) -> int:
    """How many questions wait for this person."""
    name, roles = visitor.principal.name, visitor.principal.roles
    return sum(
        may_decide(fact, name, roles, run.started_by)
        for run in follower.summaries.waiting()
        for fact in questions(run.gates)
    )
