"""Hypotheses of a run: as data, as a table with the arithmetic behind each confidence, and as one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.escapes import harmless
from planrunner.machine.hypotheses import belief_object, beliefs, best, homes, ranked
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import format_percent
from planrunner.views.documents import document
from planrunner.views.terminal import Terminal, plural, table

Json = Any

_SAID = ("supports", "refutes", "neutral")


def hypotheses_document(state: State) -> dict[str, Json]:
    """The hypotheses of a run and of the plans that it links, each with every piece of evidence. ``within`` is the task
    that links the plan, empty for the plan itself."""
    groups = [(_within(state, at), beliefs(state, at)) for at in homes(state)]
    rows = [{"within": name, **belief_object(state, each, True)} for name, known in groups for each in known]
    return document(run_id=state.run_id, plan=state.plan.id, best=best(beliefs(state)), hypotheses=rows)


def _within(state: State, at: int) -> str:
    return "" if at < 0 else state.specs[at].id


def hypotheses_lines(terminal: Terminal, state: State) -> list[str]:
    """A table of each plan that has hypotheses, the most probable first, and the arithmetic below it."""
    lines: list[str] = []
    for at in homes(state):
        rows = [belief_object(state, each) for each in ranked(beliefs(state, at))]
        if at >= 0:
            lines.append(terminal.paint(state.specs[at].id, "bold"))
        header = ("HYPOTHESIS", "CONFIDENCE", "STATUS", "STATEMENT")
        lines += table(terminal, header, [_row(row) for row in rows])
        lines += ["", *(line for row in rows for line in (f"{row['hypothesis']}: {arithmetic(row)}", *_reasons(row)))]
    return lines


def _row(row: dict[str, Json]) -> tuple[str, str, str, str]:
    statement = harmless(str(row["statement"]))
    return str(row["hypothesis"]), format_percent(row["confidence"]), str(row["status"]), statement


def arithmetic(row: dict[str, Json]) -> str:
    """``prior 40% → odds 0.667 × 5 (measure) = 3.33 → 76.9%``; a task that is neutral does not stand in it."""
    prior, confidence = format_percent(row["prior"]), format_percent(row["confidence"])
    weighed = [given for given in row["evidence"] if given["factor"] != 1]
    if not weighed:
        return f"prior {prior}, no evidence for or against it"
    odds = row["prior"] / (1 - row["prior"])
    steps = f"{odds:.3g}"
    for given in weighed:
        odds *= given["factor"]
        more = given["factor"] > 1
        weight = given["factor"] if more else 1 / given["factor"]
        steps += f" {'×' if more else '÷'} {weight:.3g} ({harmless(given['task'])}{_bound(given)})"
    return f"prior {prior} → odds {steps} = {odds:.3g} → {confidence}"


def _bound(given: dict[str, Json]) -> str:
    return ", at its limit" if given["bounded"] else ""


def _reasons(row: dict[str, Json]) -> Iterator[str]:
    """What each task said: by which condition, or how often where it did so as rounds or items."""
    for given in row["evidence"]:
        said = [(word, given[word]) for word in _SAID if given[word]]
        if "why" in given:
            yield f"    {harmless(given['task'])} {_verb(said[0][0])}: {harmless(given['why'])}"
        else:
            counts = ", ".join(f"{_verb(word)} {count} time{'s' if count > 1 else ''}" for word, count in said)
            yield f"    {harmless(given['task'])} {counts}"


def _verb(word: str) -> str:
    return "is neutral" if word == "neutral" else word


def gate_table(rows: Iterable[dict[str, Json]]) -> Iterator[str]:
    """The hypotheses that a gate shows to people, a line each."""
    for row in rows:
        statement = f"  {harmless(str(row['statement']))}" if row["statement"] else ""
        yield f"{row['hypothesis']}  {format_percent(row['confidence'])} {row['status']}{statement}"
        yield f"    {arithmetic(row)}"


def hypotheses_line(terminal: Terminal, state: State) -> str:
    """``hypotheses: race 93% supported, pool 16.7% refuted``; empty where nothing has been weighed."""
    if not state.evidence:
        return ""
    known = ranked(beliefs(state))
    parts = [f"{each.hypothesis.name} {format_percent(each.confidence)} {each.status}" for each in known[:3]]
    more = f" and {plural(len(known) - 3, 'other')}" if len(known) > 3 else ""
    listing = f" ({terminal.program} hypotheses {state.run_id})" if parts else ""
    return f"hypotheses: {', '.join(parts)}{more}{listing}" if parts else ""
