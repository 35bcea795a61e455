"""Runs as OpenTelemetry traces: a span for each run, for each attempt of a task, and for each question to people.

What a span says follows from the journal alone. An entry that is exported again, after a crash or an answer that was
lost, gives a span with the same identity, which receivers keep once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from planrunner import __version__
from planrunner.app.follow.feed import Seen, Undelivered
from planrunner.app.follow.measures import capability_of, requests_of
from planrunner.app.follow.quiet import last_words
from planrunner.engine.identities import SpanIdentity, attempt_identity, read_traceparent, run_identity, span_number
from planrunner.machine.events import AttemptEnded, Event, GateDecided, Outcome, RunEnded, RunReopened
from planrunner.machine.state import State
from planrunner.plan.tasks import tools_of

Json = Any

DAY = 86400.0
PIECE = 256
"""Spans of one request to the receiver."""
LONGEST = 400
"""Characters of a message."""

SCOPE = InstrumentationScope("planrunner", __version__)


def resource(name: str, project: str) -> Resource:
    """What sends the spans of a project. ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` go before ``name``."""
    ours = {"service.version": __version__, "host.name": socket.gethostname(), "planrunner.project": project}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        ours["service.name"] = name
    return Resource(ours).merge(OTELResourceDetector().detect())


class Traces:
    """Reads entries and exports the spans that they end. A run that is not sampled by the trace it was started in gives
    none."""

    name = "traces"
    history: float | None = DAY

    def __init__(self, exporter: SpanExporter, sender: Resource) -> None:
        self._exporter = exporter
        self._sender = sender
        self._spans: list[ReadableSpan] = []
        self._reopened: dict[str, tuple[int, float]] = {}

    def restore(self, kept: Json) -> None:
        self._spans.clear()

    def see(self, seen: Seen) -> None:
        event = seen.entry.event
        if isinstance(event, RunReopened):
            self._reopened[seen.head.run] = seen.entry.seq, seen.entry.at
        make = ENDING.get(type(event))
        if make is None or not seen.fresh:
            return
        identity = _run(seen.state)
        if identity.sampled:
            self._spans += make(self, seen, event, identity)

    def deliver(self) -> Json:
        while self._spans:
            piece = self._spans[:PIECE]
            if self._exporter.export(piece) is not SpanExportResult.SUCCESS:
                raise Undelivered(f"the receiver of traces does not take them: {last_words()}")
            del self._spans[: len(piece)]
        return {}

    def close(self) -> None:
        """Close the connections to the receiver."""
        self._exporter.shutdown()

    def span(
        self, name: str, identity: SpanIdentity, parent: int, times: tuple[float, float], **more: Any
    ) -> ReadableSpan:
        """A span that has ended. ``parent`` is the number of the span around it, 0 without one."""
        started, ended = times
        return ReadableSpan(
            name,
            context=_context(identity),
            parent=_context(identity._replace(span=parent), remote=True) if parent else None,
            resource=self._sender,
            instrumentation_scope=SCOPE,
            start_time=_nanoseconds(started),
            end_time=_nanoseconds(max(started, ended)),
            **more,
        )

    def run_span(self, seen: Seen, event: RunEnded, run: SpanIdentity) -> Iterator[ReadableSpan]:
        """The span of a run; of one that had ended before, a span of what came since, inside the first one."""
        state, reopened = seen.state, self._reopened.pop(seen.head.run, None)
        outside = read_traceparent(str(state.environment.get("traceparent", "")))
        parent, identity, started = outside.span if outside is not None else 0, run, seen.head.created
        if reopened is not None:
            seq, started = reopened
            parent, identity = run.span, run._replace(span=span_number(state.run_id, str(seq)))
        yield self.span(
            f"plan {state.plan.id}",
            identity,
            parent,
            (started, seen.entry.at),
            attributes=_given(
                {
                    "planrunner.run.id": state.run_id,
                    "planrunner.run.status": event.status,
                    "planrunner.run.reason": event.reason,
                    "planrunner.run.started_by": str(state.environment.get("user", "")),
                    "planrunner.plan.id": state.plan.id,
                    "planrunner.plan.digest": state.plan_digest,
                    "planrunner.plan.revision": state.revision,
                    "planrunner.tasks": len(state.specs),
                }
            ),
            status=_status(event.status in ("completed", "cancelled"), event.detail or event.reason),
        )

    def attempt_span(self, seen: Seen, event: AttemptEnded, run: SpanIdentity) -> Iterator[ReadableSpan]:
        """The span of an attempt, inside that of the task that holds it."""
        state, outcome = seen.state, event.outcome
        number = state.index.get(event.task)
        if number is None:
            return
        task, task_state = state.specs[number], state.tasks[number]
        key = f"{state.run_id}:{task.id}:{event.attempt}"
        kind, name, more = _described(state, number, outcome)
        failed = outcome.failure
        yield self.span(
            name,
            attempt_identity(run, key),
            _around(state, number, run),
            (task_state.began or seen.entry.at, seen.entry.at),
            kind=kind,
            attributes=_given(
                {
                    "planrunner.run.id": state.run_id,
                    "planrunner.plan.id": state.plan.id,
                    "planrunner.task.id": task.id,
                    "planrunner.task.attempt": event.attempt,
                    "planrunner.capability": capability_of(task),
                    "planrunner.failure.rule": outcome.rule,
                    "error.type": failed,
                    "process.exit.code": outcome.exit_code,
                    **more,
                }
            ),
            events=_events(outcome, capability_of(task), seen.entry.at),
            status=_status(not failed, outcome.message or failed),
        )

    def gate_span(self, seen: Seen, event: GateDecided, run: SpanIdentity) -> Iterator[ReadableSpan]:
        """The span of a question to people, from the time at which it was put."""
        number = seen.state.index.get(event.task)
        gate = seen.state.tasks[number].gate if number is not None else None
        if number is None or gate is None or not gate.opened:
            return
        key = f"{seen.state.run_id}:{event.task}:gate:{event.visit}:{gate.stage}:{gate.attempt}"
        yield self.span(
            f"gate {event.task}",
            attempt_identity(run, key),
            _around(seen.state, number, run),
            (gate.opened_at, seen.entry.at),
            attributes=_given(
                {
                    "planrunner.run.id": seen.state.run_id,
                    "planrunner.task.id": event.task,
                    "planrunner.gate.decision": event.decision,
                    "planrunner.gate.by": list(event.by),
                    "planrunner.gate.needed": gate.need,
                }
            ),
        )


ENDING: Mapping[type[Event], Any] = {
    RunEnded: Traces.run_span,
    AttemptEnded: Traces.attempt_span,
    GateDecided: Traces.gate_span,
}


def _run(state: State) -> SpanIdentity:
    return run_identity(state.run_id, str(state.environment.get("traceparent", "")))


def _around(state: State, number: int, run: SpanIdentity) -> int:
    """The number of the span around that of a task: the attempt of the task that holds it, else the run."""
    owner = state.tasks[number].frame.owner
    if owner < 0:
        return run.span
    return span_number(f"{state.run_id}:{state.specs[owner].id}:{state.tasks[owner].attempts}")


def _described(state: State, number: int, outcome: Outcome) -> tuple[SpanKind, str, dict[str, Json]]:
    """Kind, name and own attributes of a span: by the conventions for generative models where it asks one, is an agent,
    or a call that a model asked for."""
    task, owner = state.specs[number], state.tasks[number].frame.owner
    requests = requests_of(capability_of(task), outcome)
    if requests:
        model = str(requests[-1].get("id") or requests[-1].get("model"))
        return SpanKind.CLIENT, f"chat {model}", _of_models(requests, outcome)
    if task.agent is not None:
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": task.agent.name}
        return SpanKind.INTERNAL, f"invoke_agent {task.agent.name}", about
    if owner >= 0 and tools_of(state.specs[owner]):
        tool = task.id.rpartition("/")[2].partition("@")[0]
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": capability_of(task) or tool}
        return SpanKind.INTERNAL, f"execute_tool {capability_of(task) or tool}", about
    return SpanKind.INTERNAL, task.id, {}


def _of_models(requests: list[dict[str, Json]], outcome: Outcome) -> dict[str, Json]:
    last = requests[-1]
    usages = [each["usage"] for each in requests if isinstance(each.get("usage"), dict)]
    costs = [usage["cost"] for usage in usages if isinstance(usage.get("cost"), (int, float))]
    finish = outcome.outputs.get("finish_reason")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": last.get("provider"),
        "gen_ai.request.model": last.get("id"),
        "gen_ai.response.model": last.get("id"),
        "gen_ai.response.finish_reasons": [str(finish)] if finish else None,
        "gen_ai.usage.input_tokens": sum(usage.get("input") or 0 for usage in usages) if usages else None,
        "gen_ai.usage.output_tokens": sum(usage.get("output") or 0 for usage in usages) if usages else None,
        "planrunner.cost.dollars": sum(costs) if costs else None,
    }


def _events(outcome: Outcome, capability: str, at: float) -> tuple[SpanEvent, ...]:
    """Requests to models that another one followed, and what a sandbox refused; the time is the end of the attempt."""
    tried = [
        _event(
            "planrunner.model.request", {"gen_ai.request.model": each.get("id"), "error.type": each.get("failure")}, at
        )
        for each in requests_of(capability, outcome)[:-1]
    ]
    refused = [
        _event("planrunner.refused", {"planrunner.failure.rule": each.get("rule"), "count": each.get("count")}, at)
        for each in outcome.refused
    ]
    return (*tried, *refused)


def _event(name: str, attributes: dict[str, Json], at: float) -> SpanEvent:
    return SpanEvent(name, _given(attributes), _nanoseconds(at))


def _given(attributes: dict[str, Json]) -> dict[str, Json]:
    """Attributes that have a value."""
    return {name: value for name, value in attributes.items() if value not in (None, "")}


def _status(well: bool, message: str) -> Status:
    return Status(StatusCode.OK) if well else Status(StatusCode.ERROR, " ".join(message.split())[:LONGEST])


def _context(identity: SpanIdentity, remote: bool = False) -> SpanContext:
    return SpanContext(identity.trace, identity.span, remote, TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(at: float) -> int:
    return int(at * 1e6) * 1000
