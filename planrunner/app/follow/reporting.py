"""Everything that is told of the runs of a project to the outside: measures, telemetry, notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from planrunner.app.follow.feed import Feed, Reader
from planrunner.app.follow.follower import Follower
from planrunner.app.follow.measures import Measures
from planrunner.app.follow.positions import read_kept
from planrunner.app.follow.standing import Standing, standing_of
from planrunner.app.follow.telemetry import OFF, exporters, telemetry_of
from planrunner.app.notices.outlet import Sender, outlets
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
        self._exporters = exporters(telemetry, place.name, self.measures, self.standing, lambda: self.feed.is_at_work)
        if self._exporters.traces is not None:
            readers.append(self._exporters.traces)
        self.feed = Feed(follower, readers)
        self.sends = telemetry != OFF

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
        if self.feed.is_at_work:
            return self.measures
        measures = Measures()
        measures.restore(read_kept(self._follower.state, measures.name))
        return measures

    def standing(self) -> Standing:
        """How the project stands this moment."""
        return standing_of(self._follower.summaries, self._place.queue())

    @property
    def problems(self) -> dict[str, str]:
        """Why readers cannot deliver, by their names."""
        metrics = self._exporters.metrics
        more = {"metrics": metrics.problem} if metrics is not None and metrics.problem else {}
        return {**self.feed.problems, **more}
