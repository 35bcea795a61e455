"""Drawings of a plan: roles as shapes, labelled arrows, colours by state."""

from __future__ import annotations

import json

from planrunner.plan.graph import Graph
from planrunner.plan.model import Edge, Expression, Gate, Plan, Task
from planrunner.views import graph
from planrunner.views.graph import drawing, graph_object, outline

PLAN = Plan(
    "demo",
    tasks=(
        Task("fetch", title='Get "it"', uses="http.get"),
        Task("test", needs=("fetch",), uses="shell", edges=(Edge("explain", "failure"),)),
        Task(
            "sign", needs=("test",), gate=Gate(ask="ok?"), edges=(Edge("test", "condition", Expression("x < 1", None)),)
        ),
        Task("ship", needs=("sign", "fetch"), uses="shell"),
        Task("explain", uses="noop"),
    ),
)


def test_mermaid_has_shapes_labels_and_escaped_titles():
    text = graph.render_mermaid(drawing(PLAN, {"fetch": "completed", "test": "failed"}))
    assert text.splitlines() == [
        "flowchart TD",
        '  n0(["fetch<br/>Get #quot;it#quot;<br/>(completed)"])',
        '  n1{"test<br/>(failed)"}',
        '  n2{{"sign"}}',
        '  n3(["ship"])',
        '  n4(["explain"])',
        "  n0 --> n1",
        '  n1 -.->|"on failure"| n4',
        "  n1 --> n2",
        '  n2 -.->|"when x #lt; 1"| n1',
        "  n2 --> n3",
        "  n0 --> n3",
        "  classDef completed fill:#d3f2d9,stroke:#1a7f37,color:#111111",
        "  class n0 completed",
        "  classDef failed fill:#ffd7d5,stroke:#b3261e,color:#111111",
        "  class n1 failed",
    ]


def test_dot_quotes_names_and_marks_conditional_arrows():
    text = graph.render_dot(drawing(PLAN, {"test": "failed"}))
    assert '  "fetch" [label="fetch\\nGet \\"it\\"", shape=oval];' in text
    assert (
        '  "test" [label="test\\n(failed)", shape=diamond, style=filled, fillcolor="#ffd7d5", color="#b3261e"];' in text
    )
    assert '  "test" -> "explain" [label="on failure", style=dashed];' in text
    assert text.endswith("}\n")


def test_text_tells_role_kind_other_needs_and_routes(screen):
    text = graph.render_text(PLAN, screen()[0])
    assert text.splitlines() == [
        "fetch      start, http.get",
        "test       decision, shell, on failure → explain",
        "  sign     decision, gate: approval, when x < 1 → test",
        "  ship     exit, shell, also after fetch",
        "  explain  exit, noop",
    ]


def test_json_names_nodes_and_edges():
    data = json.loads(json.dumps(graph_object(drawing(PLAN))))
    assert [node["id"] for node in data["nodes"]] == ["fetch", "test", "sign", "ship", "explain"]
    assert {"from": "test", "to": "explain", "kind": "failure", "label": "on failure"} in data["edges"]


def test_a_chain_of_ten_thousand_tasks_stays_on_one_level():
    tasks = [Task("t0"), *(Task(f"t{number}", needs=(f"t{number - 1}",)) for number in range(1, 10_000))]
    lines = outline(Graph(Plan("long", tasks=tuple(tasks))))
    assert {line.level for line in lines} == {0}
    assert [line.task for line in lines] == list(range(10_000))


def test_every_task_is_listed_once_even_in_a_circle():
    plan = Plan("round", tasks=(Task("a", needs=("c",)), Task("b", needs=("a",)), Task("c", needs=("b",)), Task("d")))
    assert sorted(line.task for line in outline(Graph(plan))) == [0, 1, 2, 3]
