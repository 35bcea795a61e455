"""``/metrics`` for Prometheus: what the projects of a visitor amount to, and how the process stands."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from planrunner.app.follow.measures import MEASURES, Labels, Measures
from planrunner.app.follow.reporting import Reporting
from planrunner.service.context import SeenProjects
from planrunner.service.reports import HereReports

router = APIRouter(include_in_schema=False)

PREFIX = "planrunner_"
FORMAT = "text/plain; version=0.0.4; charset=utf-8"


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
        families: dict[str, Metric] = {}
        for project, reporting in self._projects.items():
            measures = reporting.counted()
            for name, values in measures.counters():
                _add_counter(families, name, project, values)
            _add_histograms(families, project, measures)
            for name, (told, values) in reporting.standing().gauges().items():
                _add_gauge(families, name, told, project, values)
            _add_gauge(
                families,
                "receivers_failing",
                "Receivers of reports that do not take them.",
                project,
                _failing(reporting),
            )
        yield from families.values()


def _failing(reporting: Reporting) -> list[tuple[Labels, float]]:
    return [((), float(len(reporting.problems)))]


def _add_counter(families: dict[str, Metric], name: str, project: str, values: list[tuple[Labels, float]]) -> None:
    for labels, value in values:
        family = families.get(name)
        if family is None:
            family = families[name] = CounterMetricFamily(PREFIX + name, MEASURES[name].help, labels=_names(labels))
        assert isinstance(family, CounterMetricFamily)
        family.add_metric(_values(project, labels), value)


def _add_gauge(
    families: dict[str, Metric], name: str, told: str, project: str, values: list[tuple[Labels, float]]
) -> None:
    for labels, value in values:
        family = families.get(name)
        if family is None:
            family = families[name] = GaugeMetricFamily(PREFIX + name, told, labels=_names(labels))
        assert isinstance(family, GaugeMetricFamily)
        family.add_metric(_values(project, labels), value)


def _add_histograms(families: dict[str, Metric], project: str, measures: Measures) -> None:
    for name, values in measures.histograms():
        for labels, counts, total in values:
            family = families.get(name)
            if family is None:
                family = HistogramMetricFamily(PREFIX + name, MEASURES[name].help, labels=_names(labels))
                families[name] = family
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(_values(project, labels), _buckets(MEASURES[name].bounds, counts), total)


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
