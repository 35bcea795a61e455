"""The plans printed in the documents that asked for planrunner: they load as they stand and convert without loss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from plan_loading import SEED, corpus, errors, loaded
from rows import rows

from planrunner.plan.canonical import ordered
from planrunner.plan.identity import digest
from planrunner.plan.model import Plan
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse, write
from planrunner.syntax.tree import Mapping

if TYPE_CHECKING:
    from planrunner.source import Notation

ENDINGS: dict[Notation, str] = {"yaml": ".yaml", "text": ".plan", "json": ".json"}
PLANS = [
    "http3-research.yaml",
    "feature-x.yaml",
    "debug-500.yaml",
    "plan-build-search.json",
    "rfc-collect.yaml",
    "template.plan",
    "rfc-collect-1.yaml",
]


def plan_of(text: str, name: str) -> Plan:
    result = loaded(text, name)
    assert result.plan is not None, errors(result)
    return result.plan


def converted(text: str, name: str, to: Notation) -> str:
    """The plan in another notation, as ``planrunner convert`` writes it."""
    tree = loaded(text, name).tree
    assert isinstance(tree, Mapping)
    return write(ordered(tree), to)


def block(start: str) -> str:
    """The code block of the document that begins with ``start``."""
    if not SEED.is_file():
        pytest.skip("the documents are not part of this checkout")
    blocks = re.findall(r"```(?:yaml|json)\n(.*?)```", SEED.read_text(encoding="utf-8"), re.DOTALL)
    return next(text for text in blocks if text.lstrip().startswith(start))


def seed_texts() -> dict[str, str]:
    """The printed plans; the single task gets the plan and the two tasks that it points to, and the template's places
    are filled in."""
    task = block('id: "rfc')
    lines = [("    " if number else "  - ") + line for number, line in enumerate(task.rstrip("\n").split("\n"))]
    rfc = "plan: rfc-collect\ntasks:\n" + "\n".join(lines) + "\n  - {id: rfc-summarize-1, kind: synthesize}\n"
    filled = block("task <id>")
    for place, word in {
        "<id> [<id>...]": "scope agree",
        "task <id>": "task fetch-sources",
        "<kind>": "research",
        "<capability>": "shell",
        "Title": "Fetch the sources",
        "key: value": "topic: congestion control",
        "<command>": "wc -l sources.txt",
        "<success criterion>": "exit_code == 0",
        "on failure -> <task id>": "on failure -> broaden",
        "on success -> <task id>": "on success -> summarize",
    }.items():
        assert place in filled
        filled = filled.replace(place, word)
    return {
        "http3-research.yaml": block("plan_id: http3"),
        "rfc-collect-1.yaml": task,
        "feature-x.yaml": block("plan_id: feature-x"),
        "debug-500.yaml": block("plan_id: debug-500"),
        "plan-build-search.json": block("{"),
        "rfc-collect.yaml": rfc + "  - {id: research-broaden-1, kind: research}\n",
        "template.plan": filled
        + "".join(f"\ntask {name}" for name in ("scope", "agree", "broaden", "summarize"))
        + "\n",
    }


@rows("name", PLANS)
def test_a_printed_plan_loads_and_keeps_its_meaning_in_every_notation(name: str) -> None:
    text = seed_texts()[name]
    check_all_notations(text, name)


@pytest.mark.parametrize("path", corpus("ok"), ids=lambda path: path.name)
def test_a_plan_of_the_corpus_keeps_its_meaning_in_every_notation(path: Any) -> None:
    check_all_notations(path.read_text(), path.name)


def check_all_notations(text: str, name: str) -> None:
    plan = digest(plan_of(text, name))
    stem = name.rpartition(".")[0]
    for notation, ending in ENDINGS.items():
        there = converted(text, name, notation)
        assert digest(plan_of(there, stem + ending)) == plan, there
        back = converted(there, stem + ending, notation_of(name))
        assert digest(plan_of(back, name)) == plan, back


@rows("name", PLANS)
def test_the_printed_plan_and_the_one_in_the_corpus_are_the_same(name: str) -> None:
    if name in ("template.plan", "rfc-collect-1.yaml"):
        pytest.skip("the template is filled in differently, and the task alone is another one")
    ours = next(path for path in corpus("ok") if path.name == name)
    assert digest(plan_of(seed_texts()[name], name)) == digest(plan_of(ours.read_text(), name))


def test_what_the_printed_task_says_is_all_there() -> None:
    path = next(path for path in corpus("ok") if path.name == "rfc-collect.yaml")
    task = plan_of(path.read_text(), path.name).tasks[0]
    assert task.inputs == {"query": "HTTP/3 congestion control"}
    assert [criterion.expression is not None for criterion in task.preconditions] == [True, True]
    assert [criterion.expression for criterion in task.expect] == [None, None]
    assert [(mode.name, mode.recover) for mode in task.failure_modes] == [
        ("no_results", "broaden query, include synonyms")
    ]
    assert task.failure_modes[0].detect is not None and task.failure_modes[0].detect.expression is not None
    assert [(edge.on, edge.target) for edge in task.edges] == [
        ("success", "rfc-summarize-1"),
        ("failure", "research-broaden-1"),
    ]
    assert [(output.name, output.value) for output in task.outputs] == [
        ("sources", "{{ tasks.sources.outputs }}"),
        ("top10", "{{ tasks.top10.outputs }}"),
        ("docs", "{{ tasks.docs.outputs }}"),
    ]
    assert [(call.id, call.uses, call.needs) for call in task.subplan] == [
        ("top10", "research.search", ()),
        ("docs", "research.fetch", ("top10",)),
        ("sources", "research.rank", ("docs",)),
    ]
    assert task.notes == {"capabilities": ["web.fetch", "web.search"], "risks": ["stale_info", "paywalled"]}


def test_what_the_printed_plans_say_is_all_there() -> None:
    texts = {path.name: path.read_text() for path in corpus("ok")}
    http3 = plan_of(texts["http3-research.yaml"], "x.yaml")
    gate = http3.tasks[-1].gate
    assert gate is not None and (gate.kind, len(gate.checks)) == ("checks", 2)
    assert [artifact.source for artifact in http3.artifacts] == ["rfc-collect-1", "rfc-summarize-1", "gaps-identify-1"]
    assert http3.notes["memory"] == {"keys": ["http3.terms", "http3.key_claims"]}
    debug = plan_of(texts["debug-500.yaml"], "x.yaml")
    assert [each.name for each in debug.hypotheses] == ["H1", "H2", "H3"]
    assert [len(task.subplan) for task in debug.tasks] == [0, 2, 2, 1, 0]
    search = plan_of(texts["plan-build-search.json"], "x.json")
    assert (search.tasks[1].budgets.time, search.tasks[1].budgets.cost) == (1800.0, 5.0)
    assert search.policy == {"requireGateForProd": True}
    source = Source(texts["http3-research.yaml"])
    assert isinstance(parse(source).tree, Mapping)
