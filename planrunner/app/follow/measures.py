"""What the runs of a project amount to, in counters and histograms: made of entries alone, each counted once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from planrunner.app.follow.feed import Seen
from planrunner.app.follow.positions import read_kept
from planrunner.machine.events import (
    LOST,
    AttemptEnded,
    BudgetExtended,
    BudgetRefused,
    DoubtSettled,
    Event,
    GateDecided,
    GateOpened,
    GateVoted,
    Outcome,
    RollbackStarted,
    RunEnded,
    RunReopened,
    RunRevised,
    RunStarted,
    StopRequested,
    TaskSettled,
    TasksReset,
    Warned,
)
from planrunner.machine.state import State
from planrunner.plan.model import Task
from planrunner.records import Struct

Json = Any
Labels = tuple[tuple[str, str], ...]

SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
COUNTS = (1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 13.0, 21.0)
TOKENS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0)

MOST = 200
"""Values of one label that are counted apart; further ones are counted together as ``other``."""


class Measure(Struct):
    """A counter, or with ``bounds`` a histogram; ``unit`` is that of UCUM, as OpenTelemetry writes it."""

    help: str
    unit: str = "1"
    bounds: tuple[float, ...] = ()


MEASURES: dict[str, Measure] = {
    "runs_started": Measure("Runs that were started."),
    "runs_ended": Measure("Runs that ended, by status; the share of completed ones is the success rate."),
    "run_duration_seconds": Measure("Time from the start of a run to its end.", "s", SECONDS),
    "tasks_settled": Measure("Tasks that were settled, by status."),
    "attempts": Measure("Attempts of tasks that ended, by capability and failure class (`none`: it went well)."),
    "attempt_duration_seconds": Measure("Time that attempts took, by capability.", "s", SECONDS),
    "attempts_to_success": Measure("Attempts that completed tasks needed.", "1", COUNTS),
    "rounds_to_success": Measure("Rounds that completed loops and agents needed.", "1", COUNTS),
    "tokens": Measure("Tokens that models used, by model and direction.", "{token}"),
    "tokens_per_task": Measure("Tokens that one attempt of a task used.", "{token}", TOKENS),
    "cost_dollars": Measure("Dollars that models cost, by model.", "{USD}"),
    "model_requests": Measure("Requests to models, by model and failure class (`none`: it went well)."),
    "memory_lookups": Measure("Look-ups in memory, by result: hit or miss."),
    "safety_violations": Measure("Acts that a rule refused, by rule.",),
    "interventions": Measure("Acts of people on runs, by kind."),
    "gates_opened": Measure("Questions that were put to people."),
    "gate_wait_seconds": Measure("Time that gates waited for their decision, by decision.", "s", SECONDS),
    "rollbacks": Measure("Rollbacks that were started, by reason."),
    "watchdog_alarms": Measure("Attempts that ran longer than their watchdog allows."),
}  # fmt: skip
"""Every measure by its name, without the prefix that exporters write before it."""

INTERVENING = ("pause", "cancelled", "killed")
"""Reasons of stops that people ask for."""


class Histogram:
    """``counts`` has one more place than the bounds: for what is above the last one."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: list[int], total: float = 0.0) -> None:
        self.counts = counts
        self.total = total


class Measures:
    """The counters and histograms of one project, as a reader of its entries. ``since`` is when counting began, in
    seconds since 1970.

    Only the thread of the feed changes it; ``counters`` and ``histograms`` may be read by any thread.
    """

    name = "measures"
    history: float | None = None

    def __init__(self) -> None:
        self.since = 0.0
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._values: dict[str, set[str]] = {}

    def counters(self) -> Iterator[tuple[str, list[tuple[Labels, float]]]]:
        """Each counter with its values."""
        for name, values in list(self._counters.items()):
            yield name, list(values.items())

    def histograms(self) -> Iterator[tuple[str, list[tuple[Labels, list[int], float]]]]:
        """Each histogram with counts by bucket and the sum of what was measured."""
        for name, values in list(self._histograms.items()):
            yield name, [(labels, list(one.counts), one.total) for labels, one in list(values.items())]

    def value(self, name: str, **labels: str) -> float:
        """A counter, or how often a histogram was measured, summed over all that have these labels."""
        wanted = set(labels.items())
        counted = [count for each, count in self._counters.get(name, {}).items() if wanted <= set(each)]
        measured = [sum(one.counts) for each, one in self._histograms.get(name, {}).items() if wanted <= set(each)]
        return sum(counted) + sum(measured)

    def by(self, name: str, label: str) -> dict[str, float]:
        """A counter by the values of one label, the greatest first."""
        sums: dict[str, float] = {}
        for labels, count in self._counters.get(name, {}).items():
            value = dict(labels).get(label, "")
            sums[value] = sums.get(value, 0) + count
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def average(self, name: str) -> float | None:
        """The average of what a histogram measured; None where that is nothing."""
        every = self._histograms.get(name, {}).values()
        count = sum(sum(one.counts) for one in every)
        return sum(one.total for one in every) / count if count else None

    def restore(self, kept: Json) -> None:
        kept = kept or {"since": 0.0, "counters": [], "histograms": []}
        self.since = kept["since"]
        self._values = {}
        self._counters, self._histograms = {}, {}
        for name, labels, value in kept["counters"]:
            self._counters.setdefault(name, {})[self._known(labels)] = value
        for name, labels, counts, total in kept["histograms"]:
            if name in MEASURES and len(counts) == len(MEASURES[name].bounds) + 1:
                self._histograms.setdefault(name, {})[self._known(labels)] = Histogram(counts, total)

    def deliver(self) -> Json:
        return {
            "since": self.since,
            "counters": [
                [name, [list(pair) for pair in labels], value]
                for name, values in self._counters.items()
                for labels, value in values.items()
            ],
            "histograms": [
                [name, [list(pair) for pair in labels], one.counts, one.total]
                for name, values in self._histograms.items()
                for labels, one in values.items()
            ],
        }

    def see(self, seen: Seen) -> None:
        if seen.fresh:
            self.since = self.since or seen.entry.at
            count = COUNTING.get(type(seen.entry.event))
            if count is not None:
                count(self, seen, seen.entry.event)

    def count(self, name: str, more: float = 1, **labels: str) -> None:
        """Add to a counter."""
        values = self._counters.setdefault(name, {})
        key = self._key(labels)
        values[key] = values.get(key, 0) + more

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Measure a value."""
        bounds = MEASURES[name].bounds
        values = self._histograms.setdefault(name, {})
        key = self._key(labels)
        if key not in values:
            values[key] = Histogram([0] * (len(bounds) + 1))
        values[key].counts[bisect_left(bounds, value)] += 1
        values[key].total += value

    def _key(self, labels: dict[str, str]) -> Labels:
        return tuple((label, self._bounded(label, value)) for label, value in sorted(labels.items()))

    def _bounded(self, label: str, value: str) -> str:
        """The value, or ``other`` for one beyond the most that are counted apart: projects name plans freely."""
        known = self._values.setdefault(label, set())
        if value not in known and len(known) >= MOST:
            return "other"
        known.add(value)
        return value

    def _known(self, labels: list[list[str]]) -> Labels:
        for label, value in labels:
            self._values.setdefault(label, set()).add(value)
        return tuple((label, value) for label, value in labels)


def kept_measures(state: str) -> Measures:
    """The measures of a state directory as the process that counts last kept them. Raises StorageFailed."""
    measures = Measures()
    measures.restore(read_kept(state, measures.name))
    return measures


def _run_started(measures: Measures, seen: Seen, _: Any) -> None:
    measures.count("runs_started", plan=seen.state.plan.id)


def _run_ended(measures: Measures, seen: Seen, event: RunEnded) -> None:
    plan = seen.state.plan.id
    measures.count("runs_ended", plan=plan, status=event.status)
    measures.observe("run_duration_seconds", max(0.0, seen.entry.at - seen.head.created), plan=plan)


def _attempt_ended(measures: Measures, seen: Seen, event: AttemptEnded) -> None:
    task = task_of(seen.state, event.task)
    if task is None or not capability_of(task):
        return  # a container: what it holds is counted
    outcome, capability = event.outcome, capability_of(task)
    measures.count("attempts", capability=capability, failure=outcome.failure or "none")
    measures.observe("attempt_duration_seconds", max(0.0, outcome.duration), capability=capability)
    if outcome.rule:
        measures.count("safety_violations", rule=outcome.rule)
    for refused in (row for row in outcome.refused if row["rule"] != LOST):
        measures.count("safety_violations", _number(refused.get("count"), 1), rule=str(refused.get("rule")))
    _memory(measures, capability, outcome)
    _models(measures, capability, outcome)


def _memory(measures: Measures, capability: str, outcome: Outcome) -> None:
    """A look-up is a hit where it gave anything."""
    outputs = outcome.outputs
    if outcome.failure or capability not in ("memory.get", "memory.search", "memory.advise", "kb.search"):
        return
    hit = outputs.get("found") if "found" in outputs else _number(outputs.get("total"), 0)
    measures.count("memory_lookups", result="hit" if hit else "miss")


def _models(measures: Measures, capability: str, outcome: Outcome) -> None:
    used = 0.0
    for request in requests_of(capability, outcome):
        model, usage = str(request.get("id") or request.get("model")), request.get("usage") or {}
        measures.count("model_requests", model=model, failure=str(request.get("failure") or "none"))
        for way in ("input", "output"):
            if amount := _number(usage.get(way), 0):
                measures.count("tokens", amount, model=model, direction=way)
                used += amount
        if cost := _number(usage.get("cost"), 0):
            measures.count("cost_dollars", cost, model=model)
    used = used or _number(outcome.usage.get("tokens"), 0)
    if used:
        measures.observe("tokens_per_task", used, capability=capability)


def _task_settled(measures: Measures, seen: Seen, event: TaskSettled) -> None:
    measures.count("tasks_settled", status=event.status)
    number = seen.state.index.get(event.task)
    if event.status != "completed" or number is None:
        return
    task, task_state = seen.state.specs[number], seen.state.tasks[number]
    if task.loop is not None and task_state.inner is not None:
        measures.observe("rounds_to_success", task_state.inner.round)
    elif task_state.attempts and task.fanout is None and not task.subplan and task.sub is None:
        measures.observe("attempts_to_success", max(1, task_state.attempts - task_state.past))


def _gate_opened(measures: Measures, seen: Seen, event: GateOpened) -> None:
    measures.count("gates_opened", kind=event.kind or event.stage.partition(":")[0])


def _gate_decided(measures: Measures, seen: Seen, event: GateDecided) -> None:
    number = seen.state.index.get(event.task)
    gate = seen.state.tasks[number].gate if number is not None else None
    if gate is not None and gate.opened:
        measures.observe("gate_wait_seconds", max(0.0, seen.entry.at - gate.opened_at), decision=event.decision)


def _stop_requested(measures: Measures, seen: Seen, event: StopRequested) -> None:
    if event.reason in INTERVENING:
        measures.count("interventions", kind="pause" if event.reason == "pause" else "cancel")


def _tasks_reset(measures: Measures, seen: Seen, event: TasksReset) -> None:
    if event.reason in ("retry", "rerun") and event.by:
        measures.count("interventions", kind=event.reason)


def _rollback_started(measures: Measures, seen: Seen, event: RollbackStarted) -> None:
    measures.count("rollbacks", reason=event.reason)
    if event.reason == "person":
        measures.count("interventions", kind="rollback")


def _gate_voted(measures: Measures, seen: Seen, event: GateVoted) -> None:
    kind = "answer" if event.verdict == "approve" and (event.choice or event.fields) else event.verdict
    measures.count("interventions", kind=kind)


def _doubt_settled(measures: Measures, seen: Seen, event: DoubtSettled) -> None:
    if event.by:
        measures.count("interventions", kind="settle")


def _of_people(kind: str) -> Callable[[Measures, Seen, Any], None]:
    return lambda measures, seen, event: measures.count("interventions", kind=kind)


def _warned(measures: Measures, seen: Seen, event: Warned) -> None:
    measures.count("watchdog_alarms", do=event.do)


def _run_reopened(measures: Measures, seen: Seen, event: RunReopened) -> None:
    if event.reason == "budget":
        measures.count("interventions", kind="reopen")


COUNTING: dict[type[Event], Callable[[Measures, Seen, Any], None]] = {
    RunStarted: _run_started,
    RunEnded: _run_ended,
    AttemptEnded: _attempt_ended,
    TaskSettled: _task_settled,
    GateOpened: _gate_opened,
    GateDecided: _gate_decided,
    GateVoted: _gate_voted,
    StopRequested: _stop_requested,
    TasksReset: _tasks_reset,
    RollbackStarted: _rollback_started,
    DoubtSettled: _doubt_settled,
    BudgetExtended: _of_people("budget"),
    BudgetRefused: _of_people("budget"),
    RunRevised: _of_people("revise"),
    RunReopened: _run_reopened,
    Warned: _warned,
}


def task_of(state: State, path: str) -> Task | None:
    """The task with a path; None for one that the plan has no more."""
    number = state.index.get(path)
    return None if number is None else state.specs[number]


def capability_of(task: Task) -> str:
    """What a task calls: its capability, ``shell`` for a command."""
    return task.uses or ("shell" if task.run is not None else "")


def requests_of(capability: str, outcome: Outcome) -> list[dict[str, Json]]:
    """The requests to models of an attempt, as ``llm`` and ``agent`` capabilities tell them."""
    if not capability.startswith(("llm.", "agent.")):
        return []
    told = outcome.outputs.get("attempts")
    return [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []


def _number(value: Json, default: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default
