"""PLAN216: no template is filled into an input that is code."""

from __future__ import annotations

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

HEAD = "plan: p\nparams: {name: {type: string, default: x}}\ndefaults: {timeout: 5m}\ntasks:\n"


def found(task: str) -> list[str]:
    text = HEAD + task
    findings = load(Source(text, "p.yaml", "yaml"), Registry()).findings
    return [text[each.span.start : each.span.end] for each in findings if each.code == "PLAN216"]


WRONG = {
    "a value in a statement": ("{statement: \"SELECT '{{ params.name }}'\"}", "sql.query", "{{ params.name }}"),
    "a whole statement": ('{statement: "{{ params.name }}"}', "sql.query", "{{ params.name }}"),
    "a statement of a list": ('{statement: [SELECT 1, "SELECT {{ params.name }}"]}', "sql.execute", "{{ params.name }}"),
    "a statement with values": (
        '{statement: [{statement: "SELECT :a, {{ params.name }}", params: {a: "{{ params.name }}"}}]}',
        "sql.execute", "{{ params.name }}",
    ),
    "code": ('{code: "result = {{ params.name }}"}', "python.run", "{{ params.name }}"),
}  # fmt: skip


@rows("name", WRONG)
def test_a_template_in_code_is_found_at_its_place(name: str) -> None:
    inputs, uses, place = WRONG[name]
    assert found(f"  - {{id: a, uses: {uses}, with: {inputs}}}\n") == [place]


def test_what_takes_back_is_looked_at_too() -> None:
    undo = "rollback: {uses: sql.execute, with: {statement: 'DELETE FROM a WHERE b = {{ params.name }}'}}"
    assert found(f"  - {{id: a, run: x, {undo}}}\n") == ["{{ params.name }}"]


@pytest.mark.parametrize(
    "task",
    [
        '{id: a, uses: sql.query, with: {statement: "SELECT :n", params: {n: "{{ params.name }}"}, database: "{{ params.name }}"}}',
        '{id: a, uses: sql.execute, with: {statement: [{statement: "SELECT :n", params: {n: "{{ params.name }}"}}]}}',
        '{id: a, uses: python.run, with: {code: "result = {1: {2: 3}}", args: {n: "{{ params.name }}"}}}',
        '{id: a, run: "echo {{ params.name }}"}',
    ],
)
def test_values_beside_the_code_are_fine(task: str) -> None:
    assert found(f"  - {task}\n") == []
