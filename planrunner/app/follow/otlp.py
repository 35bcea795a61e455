"""Exporters of OpenTelemetry, for OTLP over HTTP. The module is loaded where telemetry is on."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from planrunner.app.follow.measures import Measures
from planrunner.app.follow.metrics import Metrics
from planrunner.app.follow.quiet import quieten
from planrunner.app.follow.standing import Standing
from planrunner.app.follow.telemetry import TIMEOUT, Exporters, Telemetry
from planrunner.app.follow.traces import Traces, resource


def exporters(
    telemetry: Telemetry,
    project: str,
    measures: Measures,
    standing: Callable[[], Standing],
    may: Callable[[], bool],
) -> Exporters:
    """What sends the telemetry of a project. ``may`` is asked before metrics are sent."""
    quieten()
    sender = resource(telemetry.service, project)
    traces = metrics = None
    if telemetry.traces != "":
        traces = Traces(OTLPSpanExporter(endpoint=telemetry.traces, timeout=TIMEOUT), sender)
    if telemetry.metrics != "":
        sending = OTLPMetricExporter(endpoint=telemetry.metrics, timeout=TIMEOUT)
        metrics = Metrics(measures, standing, sending, sender, telemetry.interval, may)
    return Exporters(traces, metrics)
