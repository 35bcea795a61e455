"""The report of a rollback: what was undone, what could not be, what was left, and what declares no undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless
from planrunner.machine.names import label
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.terminal import Terminal, cut, plural

if TYPE_CHECKING:
    from planrunner.machine.graph import Rollback
    from planrunner.machine.state import CompensationLog, UndoStep

Json = Any


MOST = 50
"""Lines of the report for people at most; the rest is counted."""

MOST_LINKED = 20
"""Rollbacks of linked plans that it tells of."""

_REASONS = {"failure": "the run failed", "doubt": "an attempt was in doubt", "person": "asked for"}
_STATUSES = {"undone": "rolled_back", "failed": "failed", "left": "skipped"}


def rollback_object(state: State) -> dict[str, Json] | None:
    """The report as data: ``steps`` in the order in which they were settled; None for a run in which nothing was
    undone. ``status`` is rolled_back, rollback_failed or, while it goes on, under_way; None where only linked plans
    were undone. ``linked`` are their reports, with the ``task`` that links the plan and the ``attempt`` of it."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return None
    linked = [
        {"task": state.specs[each.owner].id, "attempt": each.attempt, **_report(state, compensation_log, each)}
        for each in _of_linked(compensation_log)
    ]
    if not compensation_log.main.reason and not linked:
        return None
    return {**_report(state, compensation_log, compensation_log.main), "linked": linked}


def _of_linked(compensation_log: CompensationLog) -> list[Rollback]:
    return [each for each in compensation_log.rollbacks if each.owner >= 0]


def _report(state: State, compensation_log: CompensationLog, rollback: Rollback) -> dict[str, Json]:
    return {
        "status": _status(rollback) if rollback.reason else None,
        "reason": rollback.reason,
        "by": rollback.by,
        "comment": rollback.comment,
        "strict": rollback.strict,
        "steps": [_step(state, step) for step in _settled(compensation_log, rollback)],
        "waiting": [state.specs[step.number].id for step in _left(compensation_log, rollback) if not step.detail],
        "cut_off": [state.specs[step.number].id for step in _left(compensation_log, rollback) if step.detail],
        "bare": list(rollback.bare),
    }


def _settled(compensation_log: CompensationLog, rollback: Rollback) -> list[UndoStep]:
    """What a rollback settled, and no later one took on again."""
    return [
        compensation_log.steps[position] for position in rollback.done if compensation_log.under[position] is rollback
    ]


def _left(compensation_log: CompensationLog, rollback: Rollback) -> list[UndoStep]:
    """What a rollback did not settle, and no later one took on; with a ``detail`` it was tried."""
    return [
        compensation_log.steps[position] for position in rollback.todo if compensation_log.under[position] is rollback
    ]


def _made_good(compensation_log: CompensationLog, rollback: Rollback) -> bool:
    """Whether a rollback left something, all of which a later one has undone."""
    positions = (*rollback.done, *rollback.todo)
    later = [position for position in positions if compensation_log.under[position] is not rollback]
    return (
        bool(later)
        and not rollback.bare
        and all(compensation_log.steps[position].fate == "undone" for position in positions)
    )


def _status(rollback: Rollback) -> str:
    return "under_way" if rollback.active else rollback.status or "rollback_failed"


def _step(state: State, step: UndoStep) -> dict[str, Json]:
    return {
        "task": state.specs[step.number].id,
        "visit": step.visit,
        "kind": step.kind,
        "status": step.fate,
        "attempts": step.tries,
        "began": step.began,
        "ended": step.ended,
        "detail": step.detail,
    }


def rollback_lines(terminal: Terminal, state: State) -> list[str]:
    """The report for people."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return []
    linked = _of_linked(compensation_log)
    lines = [line for each in linked[:MOST_LINKED] for line in _lines(terminal, state, compensation_log, each)]
    if len(linked) > MOST_LINKED:
        lines.append(f"and {len(linked) - MOST_LINKED} more linked plans were rolled back")
    return lines + (
        _lines(terminal, state, compensation_log, compensation_log.main) if compensation_log.main.reason else []
    )


def _lines(terminal: Terminal, state: State, compensation_log: CompensationLog, rollback: Rollback) -> list[str]:
    by = f", {rollback.by}" if rollback.by else ""
    comment = f": {rollback.comment}" if rollback.comment else ""
    reason = _REASONS[rollback.reason] if rollback.owner < 0 else rollback.message
    why = cut(harmless(f"{reason}{by}{comment}"), terminal.edge(), terminal.unicode)
    attempt = f"attempt {rollback.attempt} of " if rollback.attempt > 1 else ""
    within = f"{attempt}{label(state, rollback.owner)} " if rollback.owner >= 0 else ""
    settled = _settled(compensation_log, rollback)
    later = ", the rest was undone later" if _made_good(compensation_log, rollback) else ""
    lines = ["", terminal.paint(f"{within}{_headline(rollback, settled)}{later} ({why})", "bold")]
    lines += [_line(terminal, state, step) for step in settled[:MOST]]
    if len(settled) > MOST:
        lines.append(f"  and {len(settled) - MOST} more")
    left = _left(compensation_log, rollback)
    for step in [step for step in left if step.detail][:MOST]:
        lines.append(f"  {terminal.sign('in_doubt')} {label(state, step.number)} {harmless(step.detail)}")
    if names := [label(state, step.number) for step in left if not step.detail]:
        lines.append(f"  still to undo: {_names(names)}")
    final = [name for name in rollback.bare if _is_irreversible(state, name)]
    if final:
        lines.append(f"  not undone, irreversible: {_names(final)}")
    if undeclared := [name for name in rollback.bare if name not in final]:
        lines.append(f"  not undone, no rollback declared: {_names(undeclared)}")
    return lines


def _is_irreversible(state: State, name: str) -> bool:
    number = state.index.get(name)
    return number is not None and state.specs[number].irreversible


def _headline(rollback: Rollback, settled: list[UndoStep]) -> str:
    undone = sum(step.fate == "undone" for step in settled)
    words = {
        "rolled_back": "rolled back",
        "rollback_failed": "partly rolled back",
        "under_way": "being rolled back",
    }
    return f"{words[_status(rollback)]}: {plural(undone, 'step')} undone"


_UNDONE = {"files": "files restored"}


def _line(terminal: Terminal, state: State, step: UndoStep) -> str:
    took = f" in {duration_text(step.ended - step.began)}" if step.ended and step.began is not None else ""
    again = f", {step.tries} attempts" if step.tries > 1 else ""
    what: str = step.fate
    if what == "undone" and not step.detail:
        what = _UNDONE.get(step.kind, what)
    line = f"  {terminal.sign(_STATUSES.get(step.fate, 'pending'))} {label(state, step.number)} {what}{took}{again}"
    if not step.detail:
        return line
    return cut(f"{line}: {harmless(step.detail)}", terminal.edge(), terminal.unicode)


def _names(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
