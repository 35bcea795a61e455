"""What a plan says of the calls that an agent asks for (``calls``): refuse them, ask a person, tell the model more."""

from __future__ import annotations

from collections.abc import Iterator

from planrunner.plan.agents import Tool, narrowed, wordings
from planrunner.plan.lower import values
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import Hook
from planrunner.plan.nearest import meant, nearest
from planrunner.syntax.tree import Mapping, Node, Sequence

ACTIONS = ("deny", "ask", "say")


def hooks(low: Lowering, node: Node, tools: list[Tool] | None) -> Iterator[Hook]:
    """The entries of ``calls`` for an agent with these tools; None for an agent that does not exist."""
    for entry in node.items if isinstance(node, Sequence) else [node]:
        if not isinstance(entry, Mapping):
            continue
        said = [name for name in ACTIONS if entry.get(name) is not None]
        word, when = entry.get("tool"), entry.get("when")
        if len(said) != 1:
            what = "two of them" if said else "none of them"
            message = f"an entry of `calls` has one of `deny`, `ask` and `say`, and here are {what}"
            low.report("PLAN004", message, entry.span, "write an entry for each")
            continue
        words = values.texts(word) if word is not None else ("*",)
        met = [*_tools(low, word, tools)] if word is not None and tools is not None else tools or []
        if said == ["ask"] and any(each.is_person() for each in met) and words != ("*",):
            help_ = "take it out: the tool `ask` asks a person by itself"
            low.report("PLAN009", "a call of the tool `ask` waits for a person already", entry.span, help_)
        given = condition(low, when) if when is not None else None
        yield Hook(words, given, said[0], values.plain_text(entry.get(said[0]) or entry))  # type: ignore[arg-type]


def _tools(low: Lowering, node: Node, tools: list[Tool]) -> Iterator[Tool]:
    """The tools that words name; a word that names none is reported."""
    for word in node.items if isinstance(node, Sequence) else [node]:
        for found in narrowed(tools, [values.text(word)]):
            if isinstance(found, Tool):
                yield found
            elif low.roster is not None:
                way = meant(nearest(found.word, wordings(tools)))
                message = f"the agent has no tool `{found.word}`{way}"
                low.report("PLAN841", message, word.span, "`calls` names tools of the agent")
