"""What monitors ask: whether the service lives (``/livez``) and can do its work (``/readyz``); and for Prometheus what
the projects of a visitor amount to and how the process stands (``/metrics``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from planrunner.app.follow.measures import MEASURES, Labels
from planrunner.app.follow.reporting import Reporting
from planrunner.journal.workspace import check_state
from planrunner.service.context import Project, SeenProjects
from planrunner.service.problems import Problem
from planrunner.service.reports import HereReports

router = APIRouter(include_in_schema=False)

PREFIX = "planrunner_"
FORMAT = "text/plain; version=0.0.4; charset=utf-8"

Kind = TypeVar("Kind", CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)


@router.get("/livez")
def livez() -> dict[str, str]:
    """It answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> dict[str, str]:
    """It is not stopping, and the state directory of every project that has one can be used. Raises Problem 503."""
    if request.app.state.stopping:
        raise Problem(503, "the service is stopping")
    projects: dict[str, Project] = request.app.state.projects
    for project in projects.values():
        try:
            check_state(project.state)
        except FileNotFoundError:
            continue  # nothing has run yet
    return {"status": "ok"}


@router.get("/metrics")
def metrics(seen: SeenProjects, reports: HereReports) -> Response:
    """The measures of the projects that the visitor sees, in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected({each.name: found for each in seen if (found := reports.of(each)) is not None}))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return Response(generate_latest(registry), media_type=FORMAT)


class Collected(Collector):
    """The measures of projects by their names, each with the label ``project``."""

    def __init__(self, projects: dict[str, Reporting]) -> None:
        self._projects = projects

    def collect(self) -> Iterator[Metric]:
        """All families, each once with the samples of every project."""
        made: dict[str, Metric] = {}
        for project, reporting in self._projects.items():
            measures = reporting.counted()
            for name, values in measures.counters():
                for labels, value in values:
                    counter = _family(made, CounterMetricFamily, name, MEASURES[name].help, labels)
                    counter.add_metric(_values(project, labels), value)
            for name, spread in measures.histograms():
                for labels, counts, total in spread:
                    histogram = _family(made, HistogramMetricFamily, name, MEASURES[name].help, labels)
                    histogram.add_metric(_values(project, labels), _buckets(MEASURES[name].bounds, counts), total)
            for name, told, labels, value in _gauges(reporting):
                _family(made, GaugeMetricFamily, name, told, labels).add_metric(_values(project, labels), value)
        yield from made.values()


def _gauges(reporting: Reporting) -> Iterator[tuple[str, str, Labels, float]]:
    """Name, help, labels and value of what is measured at this moment."""
    for name, (told, values) in reporting.standing().gauges().items():
        for labels, value in values:
            yield name, told, labels, value
    yield "receivers_failing", "Receivers of reports that do not take them.", (), float(len(reporting.problems))


def _family(made: dict[str, Metric], kind: type[Kind], name: str, told: str, labels: Labels) -> Kind:
    """The family of a name, made for its first sample."""
    family = made.get(name)
    if family is None:
        family = made[name] = kind(PREFIX + name, told, labels=_names(labels))
    assert isinstance(family, kind)
    return family


def _buckets(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Buckets as Prometheus has them: each with all that are not above its bound."""
    below, buckets = 0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets


def _names(labels: Labels) -> list[str]:
    return ["project", *(name for name, _ in labels)]


def _values(project: str, labels: Labels) -> list[str]:
    return [project, *(value for _, value in labels)]
