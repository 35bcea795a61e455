"""The report of a rollback: what was undone, what could not be, what was left, and what nobody said how to undo."""

from __future__ import annotations

from planrunner.machine.state import State
from planrunner.record import TYPE_CHECKING
from planrunner.views.symbols import duration_text, plural
from planrunner.views.terminal import Terminal, cut, harmless

if TYPE_CHECKING:
    from typing import Any

    from planrunner.machine.undoing import Debts, Owed

    Json = Any

MOST = 50
"""Lines of the report for people at most; the rest is counted."""

_REASONS = {"failure": "the run failed", "doubt": "an attempt was in doubt", "person": "asked for"}
_STATUSES = {"undone": "rolled_back", "failed": "failed", "left": "skipped"}


def rollback_object(state: State) -> dict[str, Json] | None:
    """The report as data: ``steps`` in the order in which they were settled; None for a run in which nothing was
    undone. ``status`` is rolled_back, rollback_failed or, while it goes on, under_way."""
    debts = state.debts
    if debts is None or not debts.reason:
        return None
    return {
        "status": _status(debts),
        "reason": debts.reason,
        "by": debts.by,
        "comment": debts.comment,
        "strict": debts.strict,
        "steps": [_step(state, debts.owed[position]) for position in debts.done],
        "waiting": [state.specs[debts.owed[position].number].id for position in debts.todo],
        "bare": list(debts.bare),
    }


def _status(debts: Debts) -> str:
    return "under_way" if debts.active else debts.status or "rollback_failed"


def _step(state: State, owed: Owed) -> dict[str, Json]:
    return {
        "task": state.specs[owed.number].id,
        "visit": owed.visit,
        "kind": owed.kind,
        "status": owed.fate,
        "attempts": owed.tries,
        "began": owed.began,
        "ended": owed.ended,
        "detail": owed.detail,
    }


def rollback_lines(terminal: Terminal, state: State) -> list[str]:
    """The report for people."""
    debts = state.debts
    if debts is None or not debts.reason:
        return []
    by = f", {debts.by}" if debts.by else ""
    comment = f": {debts.comment}" if debts.comment else ""
    why = cut(harmless(f"{_REASONS[debts.reason]}{by}{comment}"), terminal.edge(), terminal.unicode)
    lines = ["", terminal.paint(f"{_headline(debts)} ({why})", "bold")]
    settled = [debts.owed[position] for position in debts.done]
    lines += [_line(terminal, state, owed) for owed in settled[:MOST]]
    if len(settled) > MOST:
        lines.append(f"  and {len(settled) - MOST} more")
    if debts.todo:
        names = [state.specs[debts.owed[position].number].id for position in debts.todo]
        lines.append(f"  still to undo: {_names(names)}")
    if debts.bare:
        lines.append(f"  not undone, since they do not say how: {_names(list(debts.bare))}")
    return lines


def _headline(debts: Debts) -> str:
    undone = sum(debts.owed[position].fate == "undone" for position in debts.done)
    words = {
        "rolled_back": "rolled back",
        "rollback_failed": "not wholly rolled back",
        "under_way": "being rolled back",
    }
    return f"{words[_status(debts)]}: {plural(undone, 'step')} undone"


def _line(terminal: Terminal, state: State, owed: Owed) -> str:
    took = f" in {duration_text(owed.ended - owed.began)}" if owed.ended and owed.began is not None else ""
    again = f", {owed.tries} attempts" if owed.tries > 1 else ""
    what = "files put back" if owed.kind == "files" and owed.fate == "undone" else owed.fate
    line = f"  {terminal.sign(_STATUSES.get(owed.fate, 'pending'))} {state.specs[owed.number].id} {what}{took}{again}"
    if not owed.detail:
        return line
    return cut(f"{line}: {harmless(owed.detail)}", terminal.edge(), terminal.unicode)


def _names(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
