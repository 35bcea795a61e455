"""A drawing as a Mermaid flowchart, which code hosts show in Markdown."""

from __future__ import annotations

from planrunner.views.graph import COLOURS, Arrow, Drawing, Node

_SHAPES: dict[str, tuple[str, str]] = {
    "START": ("([", "])"),
    "EXIT": ("([", "])"),
    "LINEAR": ("[", "]"),
    "DECISION": ("{", "}"),
    "BRANCH": ("[/", "\\]"),
    "MERGE": ("[\\", "/]"),
    "SPLIT": ("[[", "]]"),
    "GATE": ("{{", "}}"),
}


def render(drawn: Drawing) -> str:
    """The text of the flowchart. Nodes are numbered, so that any task id may stand in a label."""
    lines = ["flowchart TD"]
    lines += [f"  {_node(at, node)}" for at, node in enumerate(drawn.nodes)]
    lines += [f"  {_arrow(arrow)}" for arrow in drawn.arrows]
    for status in dict.fromkeys(node.status for node in drawn.nodes if node.status in COLOURS):
        fill, line = COLOURS[status]
        members = ",".join(f"n{at}" for at, node in enumerate(drawn.nodes) if node.status == status)
        lines += [f"  classDef {status} fill:{fill},stroke:{line},color:#111111", f"  class {members} {status}"]
    return "\n".join(lines) + "\n"


def _node(at: int, node: Node) -> str:
    left, right = _SHAPES[node.shape]
    label = "<br/>".join(
        _escaped(text) for text in (node.id, node.title, f"({node.status})" if node.status else "") if text
    )
    return f'n{at}{left}"{label}"{right}'


def _arrow(arrow: Arrow) -> str:
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    line = "-.->" if arrow.kind in ("failure", "condition") else "-->"
    return f"n{arrow.source} {line}{label} n{arrow.target}"


def _escaped(text: str) -> str:
    """Mermaid's own entities: quotes and brackets would end the label."""
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " "), ("`", "#96;")):
        text = text.replace(sign, entity)
    return text
