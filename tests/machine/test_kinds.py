"""Every kind of event is either taken from the record or decided again: whoever adds one says which."""

from __future__ import annotations

from planrunner.machine.events import EVENTS
from planrunner.machine.replay import INPUTS

DECIDED = {
    "AttemptStarted",
    "BackupAsked",
    "BudgetWarned",
    "CheckpointAsked",
    "FactsRequested",
    "FailureResolved",
    "FrameClosing",
    "FrameOpened",
    "FreshnessAsked",
    "GateDecided",
    "GateEscalated",
    "GateOpened",
    "GateRequested",
    "PeopleAwaited",
    "RetryScheduled",
    "RollbackEnded",
    "RunEnded",
    "RunParked",
    "SettingsComputed",
    "TaskDelayed",
    "TaskQueued",
    "TaskSettled",
    "UndoScheduled",
    "UndoSettled",
    "UndoStarted",
    "Warned",
}
EITHER = {"AttemptStopping", "ResetPlanned", "RollbackStarted", "StopRequested", "TasksReset"}
"""Decided, or asked for by people: ``is_input`` tells them apart."""


def test_every_kind_is_an_input_or_decided() -> None:
    inputs = {kind.__name__ for kind in INPUTS}
    assert not inputs & (DECIDED | EITHER)
    assert inputs | DECIDED | EITHER == {kind.__name__ for kind in EVENTS}
