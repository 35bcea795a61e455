"""A plan as a drawing: nodes with their roles, arrows with their labels; written as an indented list, for Graphviz,
as Mermaid and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.plan.agents import UNNAMED
from planrunner.plan.graph import Graph
from planrunner.plan.model import Edge, Fanout, Plan, Task
from planrunner.plan.tasks import inner
from planrunner.records import Struct
from planrunner.statuses import status_word
from planrunner.views.terminal import Terminal, pad, plural, width


class Node(Struct):
    """One task. ``shape`` is its role, or ``GATE``; ``status`` is empty where no run colours the drawing. ``id`` is the
    place in the plan, ``polish/draft`` for a task inside another, whose place in ``Drawing.nodes`` is ``parent``.
    ``holds`` says how a task holds or multiplies others (``loop, at most 4 rounds``), ``group`` that they are drawn
    inside it."""

    id: str
    title: str
    role: str
    shape: str
    uses: str
    status: str
    holds: str = ""
    parent: int = -1
    group: bool = False


class Arrow(Struct):
    """From one task to another on its level, by their places in ``Drawing.nodes``. ``kind`` is need, success, failure,
    always or condition; ``label`` says when the arrow is taken, empty for a need."""

    source: int
    target: int
    kind: str
    label: str


class Drawing(Struct):
    plan: str
    title: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


COLOURS: dict[str, tuple[str, str]] = {
    "completed": ("#d3f2d9", "#1a7f37"),
    "failed": ("#ffd7d5", "#b3261e"),
    "running": ("#cfe8ff", "#0b5cad"),
    "blocked": ("#fff1c2", "#8a6100"),
    "in_doubt": ("#f3d9fa", "#862e9c"),
    "skipped": ("#eeeeee", "#6b6b6b"),
    "omitted": ("#eeeeee", "#6b6b6b"),
    "cancelled": ("#ffe8cc", "#a04d00"),
    "abandoned": ("#ffe8cc", "#a04d00"),
    "rolled_back": ("#ffe8cc", "#a04d00"),
}
"""Status → (fill, line)."""


def drawing(plan: Plan, statuses: Mapping[str, str] | None = None) -> Drawing:
    """The drawing of a plan; ``statuses`` (place in the plan → status, as ``run_statuses`` gives them) colours it by a
    run. A task stands before those it holds."""
    nodes: list[Node] = []
    arrows: list[Arrow] = []
    todo = [(plan, "", -1)]
    while todo:
        level, prefix, parent = todo.pop()
        graph = Graph(level)
        first = len(nodes)
        for at, task in enumerate(level.tasks):
            held = _held(task)
            path = prefix + task.id
            nodes.append(_node(graph, at, path, (statuses or {}).get(path, ""))._replace(parent=parent))
            if held:
                todo.append((Plan("", tasks=held), f"{path}/", first + at))
        arrows += [
            Arrow(first + arrow.source, first + arrow.target, arrow.kind, arrow.label) for arrow in _arrows(graph)
        ]
    return Drawing(plan.id, plan.title, tuple(nodes), tuple(dict.fromkeys(arrows)))


def holds_text(task: Task) -> str:
    """``for each item of params.names``, ``loop, at most 4 rounds until …``, ``subplan``; both where it is both."""
    words = []
    fanout, loop = task.fanout, task.loop
    if fanout is not None:
        words.append(_each(fanout))
        if fanout.max_parallel:
            words.append(f"{fanout.max_parallel} at once")
    if task.agent is not None and loop is not None:
        goal = f" until {task.agent.until.text}" if task.agent.until is not None else ""
        name = "agent" if task.agent.name == UNNAMED else f"agent {task.agent.name}"
        tries = task.agent.tries
        most = f"{tries} {'try' if tries == 1 else 'tries'}, " if tries else ""
        words.append(f"{name}, at most {most}{plural(loop.max, 'round')}{goal}")
    elif loop is not None:
        until = f" until {loop.until.text}" if loop.until is not None else ""
        words.append(f"loop, at most {plural(loop.max, 'round')}{until}")
    elif task.sub is not None:
        words.append(f"subplan {task.subplan_file or task.sub.id}")
    elif _held(task):
        words.append("subplan")
    return ", ".join(words)


def _held(task: Task) -> tuple[Task, ...]:
    """What is drawn inside a task: of an agent nothing, since its plan is made while it works."""
    return () if task.agent is not None else inner(task)


def _each(fanout: Fanout) -> str:
    if fanout.matrix is not None:
        return f"matrix of {', '.join(name for name in fanout.matrix if name not in ('include', 'exclude'))}"
    if fanout.foreach is not None:
        return f"for each of {fanout.foreach.text}"
    count = len(fanout.items) if isinstance(fanout.items, (list, tuple, dict)) else 0
    return f"for each of {plural(count, 'item')}" if count else f"for each of {fanout.items}"


def _arrows(graph: Graph) -> list[Arrow]:
    arrows: list[Arrow] = []
    for at, task in enumerate(graph.tasks):
        arrows += [Arrow(need, at, "need", "") for need in graph.needs[at]]
        for edge in task.edges:
            target = graph.find(edge.target)
            if target >= 0:
                arrows.append(Arrow(at, target, edge.on, _label(edge)))
    return arrows


def graph_object(drawn: Drawing) -> dict[str, Any]:
    """The drawing as JSON data."""
    names = [node.id for node in drawn.nodes]
    return {
        "format": 1,
        "plan": drawn.plan,
        "title": drawn.title,
        "nodes": [{**node._asdict(), "parent": names[node.parent] if node.parent >= 0 else ""} for node in drawn.nodes],
        "edges": [
            {"from": names[arrow.source], "to": names[arrow.target], "kind": arrow.kind, "label": arrow.label}
            for arrow in drawn.arrows
        ],
    }


def _node(graph: Graph, at: int, path: str, status: str) -> Node:
    task, role = graph.tasks[at], graph.role(at)
    shape = "GATE" if task.gate is not None else role
    return Node(path, task.title, role, shape, task.uses, status, holds_text(task), -1, bool(_held(task)))


def _label(edge: Edge) -> str:
    words = "when" if edge.on == "condition" else f"on {edge.on}"
    if edge.failure_class:
        words += f" ({edge.failure_class})"
    if edge.condition is not None:
        words += f" {edge.condition.text}" if edge.on == "condition" else f" when {edge.condition.text}"
    words += ", else" if edge.otherwise else ""
    return words + (", recovers" if edge.recovers else "") + (f", at most {edge.max} times" if edge.rework else "")


def render_text(plan: Plan, terminal: Terminal, statuses: Mapping[str, str] | None = None) -> str:
    """The text; with ``statuses`` each task has its sign and status. What a task holds stands below it."""
    drawn = drawing(plan, statuses)
    at = {node.id: number for number, node in enumerate(drawn.nodes)}
    found = _text_rows(plan.tasks, "", 0)
    routes = _text_routes(drawn, "→" if terminal.unicode else "->")
    column = min(40, max((2 * level + width(task.id) for _, task, level, _ in found), default=0))
    rows = []
    for path, task, level, also in found:
        node = drawn.nodes[at[path]]
        sign = f"{terminal.sign(node.status)} " if statuses is not None else ""
        facts = [node.role.lower(), _what(task), node.holds, status_word(node.status), also]
        facts += routes.get(at[path], [])
        name = pad("  " * level + task.id, column)
        rows.append(f"{sign}{name}  {', '.join(harmless(fact) for fact in facts if fact)}")
    return "\n".join(rows) + "\n"


def _text_rows(tasks: tuple[Task, ...], prefix: str, level: int) -> list[tuple[str, Task, int, str]]:
    """Place in the plan, task, level and what else it comes after, for one level and all below it."""
    rows = []
    for line in outline(Graph(Plan("", tasks=tasks))):
        task = tasks[line.task]
        names = ", ".join(tasks[other].id for other in line.also)
        rows.append((prefix + task.id, task, level + line.level, f"also after {names}" if names else ""))
        rows += _text_rows(_held(task), f"{prefix}{task.id}/", level + line.level + 1)
    return rows


def _text_routes(drawn: Drawing, sign: str) -> dict[int, list[str]]:
    routes: dict[int, list[str]] = {}
    for arrow in drawn.arrows:
        if arrow.label:
            target = drawn.nodes[arrow.target].id.rpartition("/")[2]
            routes.setdefault(arrow.source, []).append(f"{arrow.label} {sign} {target}")
    return routes


def _what(task: Task) -> str:
    if task.concluding:
        return f"done: {'; '.join(each.text for each in task.expect)}"
    return f"gate: {task.gate.kind}" if task.gate is not None else task.uses


class Line(Struct):
    """One task: its number in the plan, its level from 0, and the numbers of the tasks it comes after, without the one
    it is listed under."""

    task: int
    level: int
    also: tuple[int, ...]


def outline(graph: Graph) -> list[Line]:
    """``outlined`` for the tasks of a plan."""
    return outlined(graph.needs, graph.routed_from)


def outlined(needs: Sequence[Sequence[int]], routed_from: Sequence[Sequence[int]]) -> list[Line]:
    """Every task once, below the deepest of the tasks it comes after, given by what each needs and the tasks whose
    edges lead to it. Walks without recursion; tasks in a circle, which lint refuses, stand at the end."""
    parents = _parents([need or routed for need, routed in zip(needs, routed_from, strict=True)])
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        children.setdefault(parent, []).append(number)
    lines: list[Line] = []
    seen: set[int] = set()
    todo = [(number, 0) for number in reversed(children.get(-1, []))]
    while todo:
        number, level = todo.pop()
        seen.add(number)
        lines.append(_line(needs, number, parents[number], level))
        below = children.get(number, [])
        todo += [(child, level + (len(below) > 1)) for child in reversed(below)]
    return lines + [_line(needs, number, -1, 0) for number in range(len(needs)) if number not in seen]


def _parents(before: Sequence[Sequence[int]]) -> list[int]:
    """The task each one is listed under, -1 for none: the deepest of those it comes after."""
    depth = _depths(before)
    return [
        max(needed, key=lambda other: (depth[other], other)) if needed and depth[number] else -1
        for number, needed in enumerate(before)
    ]


def _depths(before: Sequence[Sequence[int]]) -> list[int]:
    """The length of the longest way to each task; tasks in a circle, and behind one, have 0."""
    waiting = [len(needed) for needed in before]
    after: list[list[int]] = [[] for _ in before]
    for number, needed in enumerate(before):
        for other in needed:
            after[other].append(number)
    depth = [0] * len(before)
    longest = [0] * len(before)
    ready = [number for number, count in enumerate(waiting) if not count]
    for number in ready:
        depth[number] = longest[number]
        for other in after[number]:
            longest[other] = max(longest[other], longest[number] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return depth


def _line(needs: Sequence[Sequence[int]], number: int, parent: int, level: int) -> Line:
    return Line(number, level, tuple(dict.fromkeys(other for other in needs[number] if other != parent)))


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
    lines = [*_mermaid_room(drawn), "flowchart TD", *_mermaid_level(drawn, below, -1, "  ")]
    lines += [f"  {_mermaid_arrow(arrow)}" for arrow in drawn.arrows]
    for status in dict.fromkeys(node.status for node in drawn.nodes if node.status in COLOURS):
        fill, line = COLOURS[status]
        members = ",".join(f"n{at}" for at, node in enumerate(drawn.nodes) if node.status == status)
        lines += [f"  classDef {status} fill:{fill},stroke:{line},color:#111111", f"  class {members} {status}"]
    return "\n".join(lines) + "\n"


_MERMAID_LINE = 24
"""Pixels of a further line of a title."""


def _mermaid_room(drawn: Drawing) -> list[str]:
    """Mermaid reserves one line for the title of a group and draws what is inside over the others: ask for more."""
    most = max((_mermaid_label(node).count("<br/>") for node in drawn.nodes if node.group), default=0)
    margin = f'{{"bottom": {most * _MERMAID_LINE}}}'
    return [f'%%{{init: {{"flowchart": {{"subGraphTitleMargin": {margin}}}}}}}%%'] if most else []


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


def draw_graph(plan: Plan, form: str, statuses: Mapping[str, str] | None = None) -> str:
    """A plan's graph as ``mermaid``, ``dot`` or ``json`` text; ``statuses`` colours it by a run."""
    drawn = drawing(plan, statuses)
    if form == "mermaid":
        return render_mermaid(drawn)
    if form == "dot":
        return render_dot(drawn)
    return json.dumps(graph_object(drawn), indent=2, ensure_ascii=False) + "\n"
