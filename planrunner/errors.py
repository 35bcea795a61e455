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

from collections.abc import Callable
from typing import TYPE_CHECKING

from planrunner.later import Later

if TYPE_CHECKING:
    from shlex import quote

    from planrunner.diagnostics import Diagnostic
    from planrunner.extras import needed
    from planrunner.source import Source
else:
    quote = Later("shlex:quote")
    needed = Later("planrunner.extras:needed")


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
HUNG_UP = 129
INTERRUPTED = 130
QUIT = 131
TERMINATED = 143


class NextStep:
    """A command of planrunner to continue with: its name (``show``, ``audit verify``), then its arguments and
    options, one word each. What people are shown is worded by the door, which knows how it was called itself."""

    __slots__ = ("arguments", "command")

    def __init__(self, command: str, *arguments: str) -> None:
        self.command = command
        self.arguments = arguments

    def __str__(self) -> str:
        return self.worded("planrunner")

    def worded(self, program: str) -> str:
        """The command as it is typed into a shell; ``program`` is how planrunner is called."""
        return " ".join((program, self.command, *map(quote, self.arguments)))


class Hint:
    """The way out of an error: text, and the commands in it as ``NextStep``."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str | NextStep) -> None:
        self.parts = tuple(part for part in parts if part)

    def __str__(self) -> str:
        return self.worded(str)

    @property
    def steps(self) -> tuple[NextStep, ...]:
        """The commands, in the order of the text."""
        return tuple(part for part in self.parts if isinstance(part, NextStep))

    def worded(self, word: Callable[[NextStep], str]) -> str:
        """One text with each command as ``word`` says it: in backticks within a sentence, bare after a colon."""
        text = ""
        for number, part in enumerate(self.parts, 1):
            if isinstance(part, str):
                text += part
            elif number == len(self.parts) and (not text or text.endswith(": ")):
                text += word(part)
            else:
                text += f"`{word(part)}`"
        return text

    def replaced(self, text: str, other: Hint) -> Hint:
        """The hint with another one in place of a part."""
        return Hint(*(new for part in self.parts for new in (other.parts if part == text else (part,))))


AGAIN = "run the command again"
"""A part of a hint that the runner of a run replaces by the command that resumes it."""

START_ONE = Hint("start one with ", NextStep("exec", "PLAN"))


class PlanrunnerError(Exception):
    """An error shown to people as one message; ``way_out`` names the next command or what else to do, ``hint`` is its
    text."""

    exit_code = INTERNAL

    def __init__(self, message: str, hint: str | NextStep | Hint = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = hint if isinstance(hint, Hint) else Hint(hint)

    @property
    def hint(self) -> str:
        return str(self.way_out)


class UsageError(PlanrunnerError):
    exit_code = USAGE


def missing_extra(who: str, extra: str, error: ImportError) -> UsageError:
    """The error where the libraries of an extra are not installed; ``who`` needs them, with its verb."""
    return UsageError(needed(who, extra, error))


class NotFound(PlanrunnerError):
    exit_code = NO_PLAN


class PlanInvalid(PlanrunnerError):
    """A plan that may not start; ``findings`` holds every diagnostic and ``source`` the text they point into."""

    exit_code = INVALID

    def __init__(self, message: str, source: Source, findings: tuple[Diagnostic, ...]) -> None:
        super().__init__(message)
        self.source = source
        self.findings = findings


class SettingsInvalid(PlanInvalid):
    """Settings with errors; findings quote what stands there."""


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

    def __init__(
        self, message: str, hint: str | NextStep | Hint = "", rule: str = "", plan: str = "", digest: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.rule = rule
        self.plan = plan
        self.digest = digest


class StorageFailed(PlanrunnerError):
    exit_code = STORAGE


class Fenced(PlanrunnerError):
    exit_code = HELD
