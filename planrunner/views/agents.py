"""What agents may use and what they are given, for people; made from the objects of ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.escapes import escaped, harmless
from planrunner.plan.agents import UNNAMED
from planrunner.views.status import amount_text
from planrunner.views.terminal import Terminal, plural, table

Json = Any

_MAY = {
    "pure": "computes",
    "read": "reads",
    "idempotent": "changes, and may be repeated",
    "checkable": "changes, and can be checked",
    "unsafe": "changes",
}
"""What a call may do, by its effect class."""


def context_lines(terminal: Terminal, parts: Iterable[dict[str, Json]]) -> list[str]:
    """The table of what an agent is given: part by part, how much of it, and why not the whole."""
    rows = [
        [
            harmless(each["part"]),
            harmless(each["name"]),
            f"{each['tokens']:,}" + ("" if each["tokens"] == each["of"] else f" of {each['of']:,}"),
            each["included"] + (f": {harmless(each['why'])}" if each["why"] else ""),
        ]
        for each in parts
    ]
    return table(terminal, ("part", "name", "tokens", "included"), rows)


def agents_lines(terminal: Terminal, rows: Iterable[dict[str, Json]]) -> Iterator[str]:
    """What ``preview`` says of each task that an agent carries out."""
    for row in rows:
        rounds = f"at most {plural(row['rounds'], 'round')}"
        name = "agent" if row["agent"] == UNNAMED else f"agent {row['agent']}"
        facts = [name, f"model {row['model'] or 'none'}", rounds]
        facts += [f"effort {row['effort']}"] if row["effort"] else []
        facts += [f"at most {tries_text(row['tries'])}"] if row["tries"] else []
        facts += [f"session {row['session']}"] if row["session"] else []
        facts += [f"{name} {amount_text(name, value)}" for name, value in row["budgets"].items()]
        yield f"{terminal.paint(harmless(row['task']), 'bold')}  {escaped(' · '.join(facts))}"
        for tool in row["tools"] or [{"name": "no tools", "may": ""}]:
            yield f"  tool     {escaped(tool['name'])}" + (f": {escaped(_may(tool))}" if tool["may"] else "")
        yield from (f"  hook     {escaped(hook)}" for hook in row["hooks"])
        yield from _context(terminal, row["context"])


def tries_text(count: int) -> str:
    return "1 try" if count == 1 else f"{count} tries"


def _may(tool: dict[str, Json]) -> str:
    may = _MAY.get(tool["may"]) or str(tool["may"])
    return f"{may}; a rollback does not revert it" if tool["irreversible"] else may


def _context(terminal: Terminal, context: dict[str, Json] | None) -> Iterator[str]:
    if context is None:
        yield "  context  its prompt alone"
        return
    yield f"  context  {', '.join(context['include'])}; at most {context['tokens']:,} tokens"
    if context["parts"]:
        yield from (f"    {line}" for line in context_lines(terminal, context["parts"]))
