"""A drawing in the language of Graphviz."""

from __future__ import annotations

from planrunner.views.graph import COLOURS, Arrow, Drawing, Node

_DOT_SHAPES: dict[str, str] = {
    "START": "oval",
    "EXIT": "oval",
    "LINEAR": "box",
    "DECISION": "diamond",
    "BRANCH": "trapezium",
    "MERGE": "invtrapezium",
    "SPLIT": "box3d",
    "GATE": "hexagon",
}


def render_dot(drawn: Drawing) -> str:
    """The text of the graph, ready for ``dot -Tsvg``."""
    below: dict[int, list[int]] = {}
    for at, node in enumerate(drawn.nodes):
        below.setdefault(node.parent, []).append(at)
    lines = [f"digraph {_dot_quoted(drawn.plan)} {{", "  rankdir=TB;", '  node [fontname="sans-serif"];']
    if any(node.group for node in drawn.nodes):
        lines += ["  compound=true;", '  graph [fontname="sans-serif"];']
    lines += _dot_level(drawn, below, -1, "  ")
    lines += [f"  {_dot_arrow(drawn, arrow, below)}" for arrow in drawn.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_level(drawn: Drawing, below: dict[int, list[int]], parent: int, indent: str) -> list[str]:
    lines: list[str] = []
    for at in below.get(parent, ()):
        node = drawn.nodes[at]
        if node.group:
            lines += [f"{indent}subgraph {_dot_quoted(f'cluster {node.id}')} {{", f"{indent}  {_dot_frame(node)}"]
            lines += [*_dot_level(drawn, below, at, indent + "  "), f"{indent}}}"]
        else:
            lines.append(indent + _dot_node(node))
    return lines


def _dot_label(node: Node) -> str:
    name = node.id.rpartition("/")[2]
    facts = (name, node.title, node.holds, f"({node.status})" if node.status else "")
    return _dot_quoted("\n".join(text for text in facts if text))


def _dot_frame(node: Node) -> str:
    facts = [f"label={_dot_label(node)};", "style=rounded;"]
    if node.status in COLOURS:
        fill, line = COLOURS[node.status]
        facts = [facts[0], 'style="rounded,filled";', f'fillcolor="{fill}";', f'color="{line}";']
    return " ".join(facts)


def _dot_node(node: Node) -> str:
    facts = [f"label={_dot_label(node)}", f"shape={_DOT_SHAPES[node.shape]}"]
    if node.shape == "EXIT":
        facts.append("peripheries=2")
    if node.status in COLOURS:
        fill, line = COLOURS[node.status]
        facts += ["style=filled", f'fillcolor="{fill}"', f'color="{line}"']
    return f"{_dot_quoted(node.id)} [{', '.join(facts)}];"


def _dot_arrow(drawn: Drawing, arrow: Arrow, below: dict[int, list[int]]) -> str:
    """An arrow from or to a task that holds others ends at its border: it leads to one inside and is cut there."""
    facts = [f"label={_dot_quoted(arrow.label)}"] if arrow.label else []
    if arrow.kind in ("failure", "condition"):
        facts.append("style=dashed")
    ends = []
    for at, cut in ((arrow.source, "ltail"), (arrow.target, "lhead")):
        inside = at
        while below.get(inside):
            inside = below[inside][0]
        if inside != at:
            facts.append(f"{cut}={_dot_quoted(f'cluster {drawn.nodes[at].id}')}")
        ends.append(_dot_quoted(drawn.nodes[inside].id))
    return " -> ".join(ends) + (f" [{', '.join(facts)}]" if facts else "") + ";"


def _dot_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
