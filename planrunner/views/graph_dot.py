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
    below: dict[int, list[int]] = {}
    for at, node in enumerate(drawn.nodes):
        below.setdefault(node.parent, []).append(at)
    lines = [f"digraph {_quoted(drawn.plan)} {{", "  rankdir=TB;", '  node [fontname="sans-serif"];']
    if any(node.group for node in drawn.nodes):
        lines += ["  compound=true;", '  graph [fontname="sans-serif"];']
    lines += _level(drawn, below, -1, "  ")
    lines += [f"  {_arrow(drawn, arrow, below)}" for arrow in drawn.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _level(drawn: Drawing, below: dict[int, list[int]], parent: int, indent: str) -> list[str]:
    lines: list[str] = []
    for at in below.get(parent, ()):
        node = drawn.nodes[at]
        if node.group:
            lines += [f"{indent}subgraph {_quoted(f'cluster {node.id}')} {{", f"{indent}  {_frame(node)}"]
            lines += [*_level(drawn, below, at, indent + "  "), f"{indent}}}"]
        else:
            lines.append(indent + _node(node))
    return lines


def _label(node: Node) -> str:
    name = node.id.rpartition("/")[2]
    facts = (name, node.title, node.holds, f"({node.status})" if node.status else "")
    return _quoted("\n".join(text for text in facts if text))


def _frame(node: Node) -> str:
    facts = [f"label={_label(node)};", "style=rounded;"]
    if node.status in COLOURS:
        fill, line = COLOURS[node.status]
        facts = [facts[0], 'style="rounded,filled";', f'fillcolor="{fill}";', f'color="{line}";']
    return " ".join(facts)


def _node(node: Node) -> str:
    facts = [f"label={_label(node)}", f"shape={_SHAPES[node.shape]}"]
    if node.shape == "EXIT":
        facts.append("peripheries=2")
    if node.status in COLOURS:
        fill, line = COLOURS[node.status]
        facts += ["style=filled", f'fillcolor="{fill}"', f'color="{line}"']
    return f"{_quoted(node.id)} [{', '.join(facts)}];"


def _arrow(drawn: Drawing, arrow: Arrow, below: dict[int, list[int]]) -> str:
    """An arrow from or to a task that holds others ends at its border: it leads to one inside and is cut there."""
    facts = [f"label={_quoted(arrow.label)}"] if arrow.label else []
    if arrow.kind in ("failure", "condition"):
        facts.append("style=dashed")
    ends = []
    for at, cut in ((arrow.source, "ltail"), (arrow.target, "lhead")):
        inside = at
        while below.get(inside):
            inside = below[inside][0]
        if inside != at:
            facts.append(f"{cut}={_quoted(f'cluster {drawn.nodes[at].id}')}")
        ends.append(_quoted(drawn.nodes[inside].id))
    return " -> ".join(ends) + (f" [{', '.join(facts)}]" if facts else "") + ";"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
