"""Values keep their kind on their way from one task to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def test_defaults_of_a_form_that_are_false_zero_or_empty_are_its_values(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = """plan: p
defaults: {timeout: 1m}
tasks:
  - id: g
    gate: approval
    ask: go?
    form:
      strict: {type: bool, default: false}
      n: {type: int, default: 0}
      s: {type: string, default: ""}
      l: {type: list, default: []}
      t: {type: bool, default: true}
      open: {type: int, required: false}
  - {id: b, needs: [g], when: not tasks.g.outputs.strict, run: 'echo "[{{ tasks.g.outputs.n }}]"'}
"""
    assert run("exec", plan(text), "--no-wait").code == 8
    shown = run("gates", "--json").out
    assert '"default": false' in shown and '"default": 0' in shown
    done = run("approve", "last", "g", "--as", "ana", "--resume")
    assert done.code == 0, done.err
    outputs = run("show", "last", "--json").data["tasks"]["g"]["outputs"]
    given = {name: outputs[name] for name in ("strict", "n", "s", "l", "t", "open")}
    assert given == {"strict": False, "n": 0, "s": "", "l": [], "t": True, "open": None}


@pytest.mark.parametrize(
    ("result", "empty"),
    [("[]", True), ("{'rows': []}", True), ("[1]", False)],
)
def test_a_result_without_declared_outputs_is_empty_where_all_that_it_has_is(
    result: str, empty: bool, run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = f"""plan: p
defaults: {{timeout: 1m}}
tasks:
  - id: c
    command: |
      python.run(code="result = {result}") -> top10
    failure_modes: [{{name: no_results, detect: top10 is empty, recover: broaden}}]
    expect: [top10 is not empty]
  - {{id: broaden, run: echo broadened}}
"""
    run("exec", plan(text))
    tasks = run("show", "last", "--json").data["tasks"]
    assert (tasks["broaden"]["status"] == "completed") is empty


FANOUT = """plan: p
on_failure: continue
defaults: {{timeout: 1m}}
tasks:
  - {{id: q, foreach: [a, b], tolerate: 100%, {task}}}
  - {{id: use, needs: [q], join: all_done, uses: noop, with: {{value: "{{{{ tasks.q.outputs.{name} }}}}"}}}}
"""


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("uses: files.read, with: {path: nowhere/x}", "content"),
        ("run: exit 1, stdout: text", "value"),
        ("run: exit 1, outputs: {n: int}", "n"),
        ("subplan: [{id: x, run: exit 1}], outputs: {n: {value: '{{ tasks.x.exit_code }}'}}", "n"),
        ("loop: {max: 2, until: 'false', tasks: [{id: x, run: exit 1}]}, outputs: {n: int}", "n"),
    ],
)
def test_a_fan_out_whose_items_all_failed_has_a_list_of_nulls_for_each_output(
    task: str, name: str, run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    run("exec", plan(FANOUT.format(task=task, name=name)))
    use = run("show", "last", "--json").data["tasks"]["use"]
    assert (use["status"], use["outputs"]["value"]) == ("completed", [None, None]), use


def test_a_form_that_was_rejected_for_every_item_has_a_list_of_nulls(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = FANOUT.format(task="gate: approval, ask: go, form: {n: {type: int, default: 1}}", name="n")
    run("exec", plan(text), "--no-wait")
    run("reject", "last", "q[*]", "--as", "ana", "--reason", "no", "--resume")
    assert run("show", "last", "--json").data["tasks"]["use"]["outputs"]["value"] == [None, None]


def test_the_outputs_of_a_task_that_did_not_run_are_missing_as_its_single_outputs_are(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = """plan: p
defaults: {timeout: 1m}
tasks:
  - {id: a, when: params.go, run: exit 1, outputs: {n: int}}
  - id: b
    needs: [a]
    join: all_done
    uses: noop
    with: {value: ["{{ tasks.a.outputs | default({n: 5}) }}", "{{ exists(tasks.a.outputs) }}", "{{ tasks.a.outputs }}"]}
params: {go: {type: bool, default: false}}
"""
    run("exec", plan(text))
    assert run("show", "last", "--json").data["tasks"]["b"]["outputs"]["value"] == [{"n": 5}, False, {}]
