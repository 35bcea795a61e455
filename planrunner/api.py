"""The one module that plugins import: everything in it stays as it is within a version of the interface.

``API`` is that version. A plugin may say ``API = 1`` in its module; one that names a version this planrunner does not
have is left out and named. What lies in large modules that a run may do without is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.capabilities.contract import (
    Call,
    Context,
    Doc,
    Exit,
    Failure,
    Pause,
    Preview,
    Spawn,
    capability,
    money,
    seconds,
    size,
)
from planrunner.diagnostics import Diagnostic, Edit, Fix, Label, Rule
from planrunner.machine.events import Entry, Outcome
from planrunner.plan.model import Capability
from planrunner.plugins import SUPPORTED
from planrunner.source import Span

if TYPE_CHECKING:
    from planrunner.capabilities.files.text import read_inside, remove_inside, write_inside
    from planrunner.capabilities.programs import Ended, run_program
    from planrunner.plan.rules.view import PlanView

API = SUPPORTED[0]

_LATE = {
    "planrunner.capabilities.files.text": ("read_inside", "remove_inside", "write_inside"),
    "planrunner.capabilities.programs": ("Ended", "run_program"),
    "planrunner.plan.rules.view": ("PlanView",),
}

__all__ = [
    "API",
    "Call",
    "Capability",
    "Context",
    "Diagnostic",
    "Doc",
    "Edit",
    "Ended",
    "Entry",
    "Exit",
    "Failure",
    "Fix",
    "Label",
    "Outcome",
    "Pause",
    "PlanView",
    "Preview",
    "Rule",
    "Span",
    "Spawn",
    "capability",
    "money",
    "read_inside",
    "remove_inside",
    "run_program",
    "seconds",
    "size",
    "write_inside",
]


def __getattr__(name: str) -> object:
    for module, names in _LATE.items():
        if name in names:
            value: object = getattr(__import__(module, fromlist=[name]), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
