"""Why a run cannot go on: plugins that it needs are not what they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planrunner.diagnostics import Diagnostic, arrange
from planrunner.errors import PlanInvalid
from planrunner.source import Source, Span

if TYPE_CHECKING:
    from planrunner.plan.model import Task
    from planrunner.plugins.registry import Registry


_GONE = "no plugin that is installed and may be loaded has it"


def refused(source: Source, registry: Registry, unusable: Iterable[tuple[Task, str]]) -> PlanInvalid:
    """The error for capabilities that tasks (those around theirs) name and that cannot be used; ``source`` is the plan
    that the run is pinned to."""
    findings = [
        Diagnostic("PLAN007", f"the capability `{name}` cannot be used", _place(source, task, name),
                   help=registry.missing(name) or _GONE)
        for task, name in unusable
    ]  # fmt: skip
    why = "the run cannot go on as things are; nothing of it has changed, mend this and resume it"
    return PlanInvalid(why, source, arrange(findings))


def _place(source: Source, task: Task, name: str) -> Span:
    """Where the task names it, or the task."""
    at = source.text.find(name, task.span.start)
    return Span(at, at + len(name)) if at >= 0 else task.span
