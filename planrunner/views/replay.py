"""What a replay found, for people and for programs."""

from __future__ import annotations

from json import dumps
from typing import Any

from planrunner.machine.replay import Difference, Replayed
from planrunner.views.terminal import harmless

Json = Any

LONGEST = 300


def replay_lines(run_id: str, replayed: Replayed, edited: bool) -> list[str]:
    """A few lines: that the record is exact, or the first difference with both sides."""
    found = replayed.difference
    if found is None:
        counts = f"{replayed.entries} entries, {replayed.decided} decided again, {replayed.inputs} from outside"
        alike = "decides the same with this plan" if edited else "replays exactly"
        return [f"run {run_id} {alike}: {counts}"]
    lines = [f"run {run_id} differs at entry {found.seq}: {harmless(found.message)}"]
    facts = [("task", found.task), ("field", found.field)]
    return [*lines, *(f"  {name:<9}{harmless(value)}" for name, value in facts if value), *_sides(found)]


def _sides(found: Difference) -> list[str]:
    expected, got, where = found.expected, found.got, ""
    if isinstance(expected, str) and isinstance(got, str) and "\n" in expected + got:
        expected, got, where = _first_line(expected, got)
    return [f"  expected {_shown(expected)}{where}", f"  got      {_shown(got)}{where}"]


def _first_line(expected: str, got: str) -> tuple[str | None, str | None, str]:
    """The first line that differs on either side, and its number."""
    one, other = expected.splitlines(), got.splitlines()
    for number in range(max(len(one), len(other))):
        left = one[number] if number < len(one) else None
        right = other[number] if number < len(other) else None
        if left != right:
            return left, right, f"  (line {number + 1})"
    return expected, got, ""


def _shown(value: Json) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else dumps(value, ensure_ascii=False)
    return harmless(text if len(text) <= LONGEST else text[: LONGEST - 1] + "~")


def replay_object(replayed: Replayed) -> dict[str, Json]:
    """The same as data; ``difference`` is None where the record is exact."""
    found = replayed.difference
    return {
        "exact": found is None,
        "entries": replayed.entries,
        "decided": replayed.decided,
        "inputs": replayed.inputs,
        "difference": None if found is None else found._asdict(),
    }
