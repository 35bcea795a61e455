"""Measures of a project as OpenTelemetry metrics, sent from time to time: counters since counting began."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource

from planrunner.app.follow.measures import MEASURES, Labels, Measures
from planrunner.app.follow.quiet import last_words
from planrunner.app.follow.standing import Standing
from planrunner.app.follow.traces import SCOPE

PREFIX = "planrunner."


class Metrics:
    """Exports the measures of a project every ``interval`` seconds, and once more when it is closed, while ``may`` says
    that this process is the one that counts.

    A receiver that is away misses no count: each export has the sums since ``Measures.since``.
    """

    def __init__(
        self,
        measures: Measures,
        standing: Callable[[], Standing],
        exporter: MetricExporter,
        sender: Resource,
        interval: float,
        may: Callable[[], bool],
    ) -> None:
        self._measures = measures
        self._standing = standing
        self._exporter = exporter
        self._sender = sender
        self._interval = interval
        self._may = may
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="planrunner-metrics", daemon=True)
        self.problem = ""
        """Why the last export failed; empty while exports succeed."""

    def start(self) -> None:
        """Begin to export."""
        self._thread.start()

    def close(self) -> None:
        """Export once more and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._exporter.shutdown()

    def export(self) -> bool:
        """Export what was counted until then; whether it was taken, or there was nothing."""
        if not self._measures.since:
            return True
        data = metrics_data(self._measures, self._standing(), self._sender, time.time())
        taken = self._exporter.export(data) is MetricExportResult.SUCCESS
        self.problem = "" if taken else f"the receiver of metrics does not take them: {last_words()}"
        return taken

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            if self._may():
                self.export()
        if self._may():
            self.export()


def metrics_data(measures: Measures, standing: Standing, sender: Resource, now: float) -> MetricsData:
    """Everything that is measured, as one message. ``now`` is seconds since 1970."""
    since, at = int(measures.since * 1e9), int(now * 1e9)
    metrics = [*_counters(measures, since, at), *_histograms(measures, since, at), *_gauges(standing, at)]
    return MetricsData([ResourceMetrics(sender, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _counters(measures: Measures, since: int, at: int) -> Iterator[Metric]:
    for name, values in measures.counters():
        points = [NumberDataPoint(dict(labels), since, at, value) for labels, value in values]
        yield Metric(
            _name(name), MEASURES[name].help, MEASURES[name].unit, Sum(points, AggregationTemporality.CUMULATIVE, True)
        )


def _histograms(measures: Measures, since: int, at: int) -> Iterator[Metric]:
    for name, values in measures.histograms():
        bounds = MEASURES[name].bounds
        points = [_point(labels, counts, total, bounds, since, at) for labels, counts, total in values]
        yield Metric(
            _name(name), MEASURES[name].help, MEASURES[name].unit, Histogram(points, AggregationTemporality.CUMULATIVE)
        )


def _point(
    labels: Labels, counts: list[int], total: float, bounds: tuple[float, ...], since: int, at: int
) -> HistogramDataPoint:
    """Smallest and greatest value are not kept: those of the first and last bucket with anything in it stand for
    them."""
    filled = [place for place, count in enumerate(counts) if count]
    least = bounds[filled[0] - 1] if filled and filled[0] else 0.0
    most = bounds[min(filled[-1], len(bounds) - 1)] if filled else 0.0
    return HistogramDataPoint(dict(labels), since, at, sum(counts), total, counts, bounds, least, most)


def _gauges(standing: Standing, at: int) -> Iterator[Metric]:
    for name, (help_, values) in standing.gauges().items():
        points = [NumberDataPoint(dict(labels), 0, at, value) for labels, value in values]
        yield Metric(_name(name), help_, "1", Gauge(points))


def _name(name: str) -> str:
    return PREFIX + name.removesuffix("_seconds")
