"""The few exceptions, each with the exit code of the command-line contract.

    PlanrunnerError
    ├── UsageError          2   the command was called wrongly
    ├── NotFound            3   no plan, run, task or file of that name
    ├── PlanInvalid         5   findings stop the plan from running; they travel with the exception
    ├── Unready             5   something that the plan needs is missing here; nothing was started
    ├── RunHeld             9   another process acts on the run
    ├── RecordMismatch     10   a preview, recording or replay does not match
    ├── StorageFailed      11   the journal cannot be written; the run is parked
    ├── Denied             12   policy does not let this person do it
    └── Fenced              9   a newer runner took the run over: this one must stop writing

A failing task is never an exception (it is an outcome in an event), a fault in a plan neither (it is a Diagnostic).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.diagnostics import Diagnostic
    from planrunner.source import Source


OK = 0
FAILED = 1
USAGE = 2
NO_PLAN = 3
INTERNAL = 4
INVALID = 5
BUDGET = 6
REJECTED = 7
WAITING = 8
HELD = 9
MISMATCH = 10
STORAGE = 11
DENIED = 12
INTERRUPTED = 130
TERMINATED = 143


class PlanrunnerError(Exception):
    """An error shown to people as one message; ``hint`` names the next command or the way out."""

    exit_code = INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(PlanrunnerError):
    exit_code = USAGE


class NotFound(PlanrunnerError):
    exit_code = NO_PLAN


class PlanInvalid(PlanrunnerError):
    """A plan that may not start; ``findings`` holds every diagnostic and ``source`` the text they point into."""

    exit_code = INVALID

    def __init__(self, message: str, source: Source, findings: tuple[Diagnostic, ...]) -> None:
        super().__init__(message)
        self.source = source
        self.findings = findings


class Unready(PlanrunnerError):
    """A sound plan that cannot run here: a secret, key, program or folder that it needs is missing."""

    exit_code = INVALID


class RunHeld(PlanrunnerError):
    exit_code = HELD


class RecordMismatch(PlanrunnerError):
    exit_code = MISMATCH


class Denied(PlanrunnerError):
    """What may not be done. With a ``rule`` it is a plan that may not start, which is kept for audit: its path, and its
    digest where it was read."""

    exit_code = DENIED

    def __init__(self, message: str, hint: str = "", rule: str = "", plan: str = "", digest: str = "") -> None:
        super().__init__(message, hint)
        self.rule = rule
        self.plan = plan
        self.digest = digest


class StorageFailed(PlanrunnerError):
    exit_code = STORAGE


class Fenced(PlanrunnerError):
    exit_code = HELD
