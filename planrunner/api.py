"""The one module that plugins import: everything in it stays as it is within a version of the interface.

``API`` is that version. A plugin may say ``API = 1`` in its module; one that names a version this planrunner does not
have is left out and named. Importing this module costs what its parts cost, which a run has loaded already; names for
rules come with ``inspect`` and more, and are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.capabilities.contract import Call as Call
from planrunner.capabilities.contract import Context as Context
from planrunner.capabilities.contract import Doc as Doc
from planrunner.capabilities.contract import Exit as Exit
from planrunner.capabilities.contract import Failure as Failure
from planrunner.capabilities.contract import Pause as Pause
from planrunner.capabilities.contract import Preview as Preview
from planrunner.capabilities.contract import Spawn as Spawn
from planrunner.capabilities.contract import capability as capability
from planrunner.machine.events import Entry as Entry
from planrunner.machine.events import Outcome as Outcome
from planrunner.plan.model import Capability as Capability
from planrunner.source import Span as Span

if TYPE_CHECKING:
    from planrunner.capabilities.contract import money as money
    from planrunner.capabilities.contract import seconds as seconds
    from planrunner.capabilities.contract import size as size
    from planrunner.capabilities.files.text import read_inside as read_inside
    from planrunner.capabilities.files.text import remove_inside as remove_inside
    from planrunner.capabilities.files.text import write_inside as write_inside
    from planrunner.capabilities.programs import Ended as Ended
    from planrunner.capabilities.programs import run_program as run_program
    from planrunner.diagnostics import Diagnostic as Diagnostic
    from planrunner.diagnostics import Edit as Edit
    from planrunner.diagnostics import Fix as Fix
    from planrunner.diagnostics import Label as Label
    from planrunner.diagnostics import Rule as Rule
    from planrunner.plan.rules.view import PlanView as PlanView


API = 1
SUPPORTED = (1,)
"""Versions of the interface that plugins may be written for: this one and the one before it."""

_LATE = {
    "Capability": "planrunner.plan.model",
    "Diagnostic": "planrunner.diagnostics",
    "Edit": "planrunner.diagnostics",
    "Ended": "planrunner.capabilities.programs",
    "Entry": "planrunner.machine.events",
    "Fix": "planrunner.diagnostics",
    "Label": "planrunner.diagnostics",
    "PlanView": "planrunner.plan.rules.view",
    "Rule": "planrunner.diagnostics",
    "Span": "planrunner.source",
    "money": "planrunner.capabilities.contract",
    "read_inside": "planrunner.capabilities.files.text",
    "remove_inside": "planrunner.capabilities.files.text",
    "run_program": "planrunner.capabilities.programs",
    "seconds": "planrunner.capabilities.contract",
    "size": "planrunner.capabilities.contract",
    "write_inside": "planrunner.capabilities.files.text",
}
"""Where to find what few plugins use."""

__all__ = [  # noqa: PLE0604 (names of a table)
    "API",
    "Call",
    "Context",
    "Doc",
    "Exit",
    "Failure",
    "Outcome",
    "Pause",
    "Preview",
    "Spawn",
    "capability",
    *sorted(_LATE),
]


def __getattr__(name: str) -> object:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(__import__(module, fromlist=[name]), name)
    globals()[name] = found
    return found
