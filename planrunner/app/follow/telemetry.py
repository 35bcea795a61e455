"""Whether and where a project sends telemetry: its section ``telemetry``, under the variables of OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from planrunner.plan.expressions.quantities import parse_duration
from planrunner.records import Struct

Json = Any

ENDPOINT = "http://localhost:4318"
INTERVAL = 60.0
TIMEOUT = 3.0
"""Seconds that a receiver has to take what is sent."""
_SWITCH = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
_EVERY = "OTEL_METRIC_EXPORT_INTERVAL"


class Telemetry(Struct):
    """What is sent where. ``traces`` and ``metrics`` are addresses, empty where nothing of the kind is sent and None
    where a variable has the address; ``interval`` is seconds between two exports of metrics."""

    traces: str | None
    metrics: str | None
    service: str = "planrunner"
    interval: float = INTERVAL

    @property
    def is_on(self) -> bool:
        """Whether anything is sent."""
        return self.traces != "" or self.metrics != ""


OFF = Telemetry("", "")


def telemetry_of(settings: Mapping[str, Json]) -> Telemetry:
    """What the settings of a project and the variables of this process say. Without a section and without an address in
    a variable nothing is sent, nor where ``OTEL_SDK_DISABLED`` is true."""
    section = settings.get("telemetry")
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or (section is None and not any(os.environ.get(name) for name in _SWITCH)):
        return OFF
    section = section or {}
    address = str(section.get("endpoint") or ENDPOINT).rstrip("/")
    return Telemetry(
        _address(section, "traces", address),
        _address(section, "metrics", address),
        str(section.get("service") or "planrunner"),
        _interval(section.get("interval")),
    )


def _address(section: Mapping[str, Json], what: str, address: str) -> str | None:
    if not section.get(what, True):
        return ""
    named = (f"OTEL_EXPORTER_OTLP_{what.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return None if any(os.environ.get(name) for name in named) else f"{address}/v1/{what}"


def _interval(said: Json) -> float:
    variable = os.environ.get(_EVERY, "").strip()
    if variable.isdecimal() and int(variable):
        return int(variable) / 1000
    seconds = parse_duration(said) if isinstance(said, str) else None
    return float(seconds) if seconds else INTERVAL


class Exporters(Struct):
    """The reader that exports traces and what exports metrics; None for what is not sent."""

    traces: Any = None
    metrics: Any = None
