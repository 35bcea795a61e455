"""A drawing in the language of Graphviz."""

from __future__ import annotations

from planrunner.views.graph import COLOURS, Arrow, Drawing, Node

_SHAPES: dict[str, str] = {
    "START": "oval",
    "EXIT": "oval",
    "LINEAR": "box",
    "DECISION": "diamond",
    "BRANCH": "trapezium",
    "MERGE": "invtrapezium",
    "SPLIT": "box3d",
    "GATE": "hexagon",
}


def render(drawn: Drawing) -> str:
    """The text of the graph, ready for ``dot -Tsvg``."""
    lines = [f"digraph {_quoted(drawn.plan)} {{", "  rankdir=TB;", '  node [fontname="sans-serif"];']
    lines += [f"  {_node(node)}" for node in drawn.nodes]
    names = [_quoted(node.id) for node in drawn.nodes]
    lines += [f"  {_arrow(arrow, names)}" for arrow in drawn.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _node(node: Node) -> str:
    label = "\n".join(text for text in (node.id, node.title, f"({node.status})" if node.status else "") if text)
    facts = [f"label={_quoted(label)}", f"shape={_SHAPES[node.shape]}"]
    if node.shape == "EXIT":
        facts.append("peripheries=2")
    if node.status in COLOURS:
        fill, line = COLOURS[node.status]
        facts += ["style=filled", f'fillcolor="{fill}"', f'color="{line}"']
    return f"{_quoted(node.id)} [{', '.join(facts)}];"


def _arrow(arrow: Arrow, names: list[str]) -> str:
    facts = [f"label={_quoted(arrow.label)}"] if arrow.label else []
    if arrow.kind in ("failure", "condition"):
        facts.append("style=dashed")
    return f"{names[arrow.source]} -> {names[arrow.target]}" + (f" [{', '.join(facts)}]" if facts else "") + ";"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
