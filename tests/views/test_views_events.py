"""The table of what events tell people."""

from __future__ import annotations

from planrunner.machine.events import EVENTS
from planrunner.views.events import ROWS

SILENT = {
    *("BackupAsked", "BackupMade", "CheckpointAsked", "FactsObserved", "FactsRequested", "FreshnessAsked"),
    *("FreshnessSeen", "GateExamined", "GateRequested", "PeopleAwaited", "PlanRefused", "ResetPlanned"),
    *("SettingsComputed", "UndoEnded"),
}
"""What only the machine needs to know."""


def test_every_event_tells_people_something_or_is_meant_to_be_silent() -> None:
    assert {event.__name__ for event in EVENTS if event not in ROWS} == SILENT
