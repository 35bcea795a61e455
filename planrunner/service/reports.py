"""What the service tells of its projects beside pages and API: measures, telemetry and notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated

from fastapi import Depends, Request

from planrunner.app.follow.reporting import Place, Reporting
from planrunner.app.queue import asking
from planrunner.caller import acting, principal
from planrunner.errors import PlanrunnerError
from planrunner.records import Struct
from planrunner.service.context import Project
from planrunner.service.following import Followers


class Told(Struct):
    """What reports need of the service: its followers, its address, and what prints a line at its terminal."""

    followers: Followers
    address: str
    say: Callable[[str], None]


class Reports:
    """The reporting of every project, between ``start`` and ``close``. A project whose settings cannot be used has
    none: ``problems`` says why."""

    def __init__(self, projects: Iterable[Project], told: Told) -> None:
        self._told = told
        self._reporting: dict[str, Reporting] = {}
        self._problems: dict[str, str] = {}
        for project in projects:
            self._add(project)

    def start(self) -> None:
        """Begin, and say what keeps projects from it."""
        for name, problem in self._problems.items():
            self._told.say(f"traces, metrics and notices of {name} are off until the next start: {problem}")
        for reporting in self._reporting.values():
            reporting.start()

    def close(self) -> None:
        """Deliver what is known, and stop; before the followers do."""
        for reporting in self._reporting.values():
            reporting.close()

    def of(self, project: Project) -> Reporting | None:
        """The reporting of a project; None where its settings cannot be used."""
        return self._reporting.get(project.name)

    @property
    def problems(self) -> dict[str, str]:
        """Why projects report nothing, and what their reporting cannot deliver, by project and receiver."""
        told = {
            f"{name}: {reader}": problem
            for name, reporting in self._reporting.items()
            for reader, problem in reporting.problems.items()
        }
        return {**self._problems, **told}

    def _add(self, project: Project) -> None:
        place = Place(project.name, project.root, self._told.address, self._told.say, partial(_queued, project))
        try:
            with acting(principal(), project.place):
                self._reporting[project.name] = Reporting(place, self._told.followers.of(project))
        except PlanrunnerError as error:
            self._problems[project.name] = str(error)


def _queued(project: Project) -> Mapping[str, int]:
    """How many items of the queue there are in each state; empty where it cannot be read."""
    try:
        with acting(principal(), project.place):
            return asking.overview(project.state).counts
    except PlanrunnerError:
        return {}


def the_reports(request: Request) -> Reports:
    """The reports of the service."""
    reports: Reports = request.app.state.reports
    return reports


HereReports = Annotated[Reports, Depends(the_reports)]
