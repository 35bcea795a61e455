"""A drawing as a Mermaid flowchart, which code hosts show in Markdown."""

from __future__ import annotations

from planrunner.views.graph import COLOURS, Arrow, Drawing, Node

_MERMAID_SHAPES: dict[str, tuple[str, str]] = {
    "START": ("([", "])"),
    "EXIT": ("([", "])"),
    "LINEAR": ("[", "]"),
    "DECISION": ("{", "}"),
    "BRANCH": ("[/", "\\]"),
    "MERGE": ("[\\", "/]"),
    "SPLIT": ("[[", "]]"),
    "GATE": ("{{", "}}"),
}


def render_mermaid(drawn: Drawing) -> str:
    """The text of the flowchart. Nodes are numbered, so that any task id may stand in a label."""
    below: dict[int, list[int]] = {}
    for at, node in enumerate(drawn.nodes):
        below.setdefault(node.parent, []).append(at)
    lines = ["flowchart TD", *_mermaid_level(drawn, below, -1, "  ")]
    lines += [f"  {_mermaid_arrow(arrow)}" for arrow in drawn.arrows]
    for status in dict.fromkeys(node.status for node in drawn.nodes if node.status in COLOURS):
        fill, line = COLOURS[status]
        members = ",".join(f"n{at}" for at, node in enumerate(drawn.nodes) if node.status == status)
        lines += [f"  classDef {status} fill:{fill},stroke:{line},color:#111111", f"  class {members} {status}"]
    return "\n".join(lines) + "\n"


def _mermaid_level(drawn: Drawing, below: dict[int, list[int]], parent: int, indent: str) -> list[str]:
    lines: list[str] = []
    for at in below.get(parent, ()):
        node = drawn.nodes[at]
        if node.group:
            lines += [
                f'{indent}subgraph n{at}["{_mermaid_label(node)}"]',
                *_mermaid_level(drawn, below, at, indent + "  "),
            ]
            lines.append(f"{indent}end")
        else:
            left, right = _MERMAID_SHAPES[node.shape]
            lines.append(f'{indent}n{at}{left}"{_mermaid_label(node)}"{right}')
    return lines


def _mermaid_label(node: Node) -> str:
    name = node.id.rpartition("/")[2]
    facts = (name, node.title, node.holds, f"({node.status})" if node.status else "")
    return "<br/>".join(_mermaid_escaped(text) for text in facts if text)


def _mermaid_arrow(arrow: Arrow) -> str:
    label = f'|"{_mermaid_escaped(arrow.label)}"|' if arrow.label else ""
    line = "-.->" if arrow.kind in ("failure", "condition") else "-->"
    return f"n{arrow.source} {line}{label} n{arrow.target}"


def _mermaid_escaped(text: str) -> str:
    """Mermaid's own entities: quotes and brackets would end the label."""
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " "), ("`", "#96;")):
        text = text.replace(sign, entity)
    return text
