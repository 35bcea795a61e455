"""Everything that is told of the runs of a project to the outside: measures, telemetry, notices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from planrunner.app.follow.feed import Feed, Reader
from planrunner.app.follow.follower import Follower
from planrunner.app.follow.measures import Measures, kept_measures
from planrunner.app.follow.standing import Standing, standing_of
from planrunner.app.follow.telemetry import Exporters, telemetry_of
from planrunner.app.notices.outlet import Sender, outlets
from planrunner.app.queue import asking
from planrunner.errors import missing_extra
from planrunner.journal.workspace import find_project, find_state
from planrunner.safety.project import read_data

Json = Any


class Place(NamedTuple):
    """The project: its name, its directory, the address of the service that shows it (empty: none), what prints a line
    at the terminal, and how many items of its queue there are in each state."""

    name: str
    root: str
    address: str
    say: Callable[[str], None]
    queue: Callable[[], Mapping[str, int]]


class Reporting:
    """Feeds the readers of one project from ``start`` until ``close``; ``measures`` are those of this process, empty
    where another one counts."""

    def __init__(self, place: Place, follower: Follower) -> None:
        """Raises UsageError and PlanInvalid for settings that cannot be used: a fault in them, a variable that is not
        set, libraries that are not installed."""
        settings = read_data(place.root)
        self.measures = Measures()
        self._place = place
        self._follower = follower
        readers: list[Reader] = [self.measures]
        readers += outlets(settings.get("notify") or (), Sender(place.name, place.address), place.say)
        telemetry = telemetry_of(settings)
        self._exporters = Exporters()
        if telemetry.is_on:
            self._exporters = _otlp().exporters(
                telemetry, place.name, self.measures, self.standing, lambda: self.feed.is_at_work
            )
        if self._exporters.traces is not None:
            readers.append(self._exporters.traces)
        self.feed: Feed = Feed(follower, readers)

    def start(self) -> None:
        """Begin."""
        self.feed.start()
        if self._exporters.metrics is not None:
            self._exporters.metrics.start()

    def close(self) -> None:
        """Deliver what is known, and stop. The follower is closed after it."""
        if self._exporters.metrics is not None:
            self._exporters.metrics.close()
        self.feed.close()
        if self._exporters.traces is not None:
            self._exporters.traces.close()

    def once(self) -> bool:
        """Deliver what is outstanding, without ``start``; whether everything was taken."""
        delivered = self.feed.once()
        sent = self._exporters.metrics is None or self._exporters.metrics.export()
        return delivered and sent

    def counted(self) -> Measures:
        """The measures up to a second ago, also where another process counts."""
        return self.measures if self.feed.is_at_work else kept_measures(self._follower.state)

    def standing(self) -> Standing:
        """How the project stands this moment."""
        return standing_of(self._follower.summaries, self._place.queue())

    @property
    def problems(self) -> dict[str, str]:
        """Why readers cannot deliver, by their names."""
        metrics = self._exporters.metrics
        more = {"metrics": metrics.problem} if metrics is not None and metrics.problem else {}
        return {**self.feed.problems, **more}


@contextmanager
def reported(state: str | None, say: Callable[[str], None]) -> Iterator[Reporting]:
    """The reporting of the project of the caller, which is not started. Raises as ``Reporting``."""
    root, there = find_project(None), find_state(None, state)
    place = Place(os.path.basename(root), root, "", say, lambda: asking.overview(there).counts)
    with Follower(there) as follower:
        yield Reporting(place, follower)


def _otlp() -> Any:
    """The module that makes exporters. Raises UsageError where its libraries are not installed."""
    try:
        return import_module("planrunner.app.follow.otlp")
    except ImportError as error:
        raise missing_extra("telemetry needs", "telemetry", error) from None
