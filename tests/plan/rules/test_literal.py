"""PLAN212: every text of a plan that is taken literally and has a template in it, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

T = "{{ params.n }}"
WORK = {"id": "a", "run": "x"}
NEXT = {"id": "z", "run": "x", "needs": ["a"]}
GATE = {"id": "a", "gate": "approval", "ask": "ship?"}


def findings(*tasks: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    """The code and the message of each error and each finding about what is literal."""
    head = {"plan": "p", "params": {"n": {"type": "string", "default": "x"}, **keys.pop("params", {})}}
    document = {**head, "defaults": {"timeout": "1m"}, "tasks": list(tasks or [WORK]), **keys}
    loaded = load(Source(json.dumps(document, indent=1), "p.json", "json"), Registry())
    return [(each.code, each.message) for each in loaded.findings if each.severity == "error" or each.code == "PLAN212"]


@rows(
    ("name", "task"),
    [
        ("`retry.on`", {**WORK, "retry": {"attempts": 2, "on": [T]}}),
        ("`rollback.retry`", {**WORK, "rollback": {"run": "y", "retry": T}}),
        ("`approvers.roles`", {**GATE, "approvers": {"roles": [T]}}),
        ("`escalate`", {**GATE, "expires": "1h", "escalate": [T]}),
        ("`artifacts.description`", {**WORK, "artifacts": [{"name": "q", "path": "f", "description": T}]}),
        ("`outputs.q.description`", {**WORK, "outputs": {"q": {"path": "f", "description": T}}}),
        ("`expect.judge`", {**WORK, "expect": [{"judge": f"fits {T}"}]}),
        ("`expect`", {**WORK, "expect": [f"looks like {T}"]}),
        (
            "`failure_modes.recover`",
            {**WORK, "failure_modes": [{"name": "e", "detect": "exit_code == 1", "recover": T}]},
        ),
        ("`secrets`", {**WORK, "secrets": [T]}),
        ("`secrets.KEY`", {**WORK, "secrets": {"KEY": T}}),
        ("`policy.files.write`", {**WORK, "policy": {"files": {"write": [T]}}}),
        ("`deadline`", {**WORK, "deadline": T}),
        ("`title`", {"id": "a", "loop": {"max": 1, "tasks": [{"id": "w", "run": f"x {T}", "title": T}]}}),
        ("a key of `env`", {**WORK, "env": {T: "x"}}),
        ("a key of `with.value`", {"id": "a", "uses": "noop", "with": {"value": {T: 1}}}),
    ],
)
def test_a_template_in_a_literal_text_of_a_task_is_a_finding(name: str, task: dict[str, Any]) -> None:
    assert findings(task, NEXT) == [("PLAN212", f"{name} is taken literally: templates are not rendered here")]


@pytest.mark.parametrize(
    "keys",
    [
        {"expect": [f'stdout contains "at {T}"']},
        {"when": f'params.n == "{T}"'},
        {"next": [{"to": "z", "when": f'outputs.q == "{T}"'}]},
        {"postconditions": [f'"{T}" in stdout']},
    ],
)
def test_a_template_in_a_text_of_an_expression_is_a_finding(keys: dict[str, Any]) -> None:
    found = [each for each in findings({**WORK, "outputs": {"q": "string"}, **keys}, NEXT) if each[0] == "PLAN212"]
    assert found == [("PLAN212", f"`{T}` is taken literally: a text in an expression is not a template")]


def test_a_text_of_an_expression_with_braces_of_another_program_is_not() -> None:
    assert findings({**WORK, "expect": ['stdout contains "{{ .Name }}"', "stdout contains params.n"]}, NEXT) == []


@rows(
    ("name", "keys"),
    [
        ("params.m.default", {"params": {"m": {"type": "string", "default": T}}}),
        ("params.m.description", {"params": {"m": {"type": "string", "description": T}}}),
        ("done.judge", {"done": [{"judge": T}]}),
        ("policy.sandbox.image", {"policy": {"sandbox": {"image": T}}}),
        ("stakeholders", {"stakeholders": [T]}),
        ("subplans.s.title", {"subplans": {"s": {"title": T, "tasks": [WORK]}}}),
        ("title", {"services": {"db": {"run": "x", "ready": "tcp://127.0.0.1:5432", "title": T}}}),
    ],
)
def test_a_template_in_a_literal_text_of_a_plan_is_a_finding(name: str, keys: dict[str, Any]) -> None:
    found = [message for code, message in findings(**keys) if code == "PLAN212"]
    assert found == [f"`{name}` is taken literally: templates are not rendered here"]


@rows(
    "task",
    [
        {**WORK, "id": T},
        {**WORK, "needs": [T]},
        {**WORK, "next": [{"to": T}]},
        {"id": "a", "uses": T},
        {"id": "a", "subplan": T},
        {**WORK, "artifacts": [{"name": "q", "path": "f", "retention": T}]},
        {**WORK, "shell": T},
        {**WORK, "heartbeat": T},
    ],
)
def test_what_another_rule_refuses_is_not_reported_twice(task: dict[str, Any]) -> None:
    found = findings(task)
    assert found and "PLAN212" not in {code for code, _ in found}


@rows(
    "task",
    [
        {"id": "a", "subplan": [f"look at {T}", {"run": f"x {T}"}]},
        {"id": "a", "uses": "noop", "with": {"value": {"tasks": [{"id": "e", "text": T}]}}},
        {"id": "a", "run": "x", "if": f"{T[:-3]} == 'x' }}}}", "environment": {"A": T}},
        {"id": "a", "command": f'noop(value="{T}") -> found', "outputs": {"found": "{{ artifacts.found }}"}},
        {**GATE, "ask": T, "evidence": [f"{T}.txt"]},
        {**WORK, "description": "prints {{ .Name }}, {{.X}} and {{ range .Items }}"},
        {**WORK, "description": "prints }} and { { x } }"},
    ],
)
def test_what_is_filled_in_or_is_no_template_of_a_plan_is_not_a_finding(task: dict[str, Any]) -> None:
    assert findings(task) == []


def test_a_template_in_what_every_task_starts_with_is_filled_in() -> None:
    defaults = {"timeout": "1m", "env": {"A": T}, "cwd": T, "with": {"noop": {"value": T}}}
    assert findings({"id": "a", "uses": "noop"}, WORK | {"id": "b"}, defaults=defaults) == []
    linked = {"params": {"n": "string"}, "defaults": defaults, "tasks": [WORK, {"id": "b", "uses": "noop"}]}
    assert findings({"id": "c", "subplan": "s", "params": {"n": "x"}}, subplans={"s": linked}) == []


def test_a_finding_points_at_the_template_and_a_comment_silences_it() -> None:
    text = "plan: p\ntitle: of {{ env.HOME }}!COMMENT\ntasks:\n  - {id: a, run: x, timeout: 1m}\n"
    [found] = load(Source(text, "p.yaml"), Registry()).findings
    assert text[found.span.start : found.span.end] == "{{ env.HOME }}"
    silent = text.replace("!COMMENT", "  # planrunner: ignore[PLAN212] it explains templates")
    assert load(Source(silent, "p.yaml"), Registry()).findings == ()


@pytest.mark.parametrize("count", [2_000])
def test_many_templates_are_each_looked_at_once(count: int) -> None:
    tasks = [
        {"id": f"t{number}", "run": f"x {T}", "when": f"params.n == '{number}'", "title": T} for number in range(count)
    ]
    assert len(findings(*tasks)) == count


@pytest.mark.parametrize("name", ["gone", "parts/gone.yaml"])
def test_the_params_of_a_subplan_that_does_not_exist_are_not_told(name: str) -> None:
    told = findings(WORK, {"id": "b", "needs": ["a"], "subplan": name, "params": {"q": T}})
    assert [code for code, _ in told] == ["PLAN111"]
