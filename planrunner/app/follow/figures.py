"""The measures of a project in figures for people: rates and averages over all its runs."""

from __future__ import annotations

from typing import Any

from planrunner.app.follow.feed import Feed
from planrunner.app.follow.follower import Follower
from planrunner.app.follow.measures import Measures, kept_measures
from planrunner.journal.workspace import find_state
from planrunner.views.documents import document

Json = Any


def measured(state: str | None) -> Measures:
    """The measures of the project, with everything that its journal has; those of a second ago where another process
    counts. Raises StorageFailed, and what the journal raises."""
    there = find_state(None, state)
    measures = Measures()
    with Follower(there) as follower:
        if not follower.summaries.newest or Feed(follower, [measures]).once():
            return measures
    return kept_measures(there)


def figures(measures: Measures) -> dict[str, dict[str, Json]]:
    """The figures by group. Rates are shares from 0 to 1; what nothing was measured of is None or empty."""
    value, by = measures.value, measures.by
    ended, hits = value("runs_ended"), value("memory_lookups", result="hit")
    return {
        "runs": {
            "started": value("runs_started"),
            "ended": by("runs_ended", "status"),
            "success_rate": _share(value("runs_ended", status="completed"), ended),
            "average_seconds": measures.average("run_duration_seconds"),
        },
        "tasks": {
            "attempts": value("attempts"),
            "failures": {name: count for name, count in by("attempts", "failure").items() if name != "none"},
            "attempts_to_success": measures.average("attempts_to_success"),
            "rounds_to_success": measures.average("rounds_to_success"),
            "average_attempt_seconds": measures.average("attempt_duration_seconds"),
        },
        "models": {
            "requests": value("model_requests") or None,
            "tokens": by("tokens", "direction"),
            "tokens_per_task": measures.average("tokens_per_task"),
            "cost_dollars": value("cost_dollars") or None,
            "memory_hit_rate": _share(hits, value("memory_lookups")),
        },
        "people": {
            "gates": value("gates_opened") or None,
            "average_wait_seconds": measures.average("gate_wait_seconds"),
            "interventions": by("interventions", "kind"),
        },
        "safety": {
            "violations": by("safety_violations", "rule"),
            "rollbacks": by("rollbacks", "reason"),
            "watchdog_alarms": value("watchdog_alarms") or None,
        },
    }


def figures_document(told: dict[str, dict[str, Json]]) -> dict[str, Json]:
    """The figures as a document for programs."""
    return document(**told)


def _share(some: float, every: float) -> float | None:
    return round(some / every, 4) if every else None
