"""What has no value, in a real process: the exit code, the place and the reason, in every view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

GIVES = """'echo "j={}" >> "$PLANRUNNER_OUTPUT"', outputs: {j: map}, timeout: 10m"""
OUTPUT = f"""
plan: p
tasks:
  - {{id: a, run: {GIVES}}}
outputs:
  n: "{{{{ tasks.a.outputs.j.missing }}}}"
"""
WHY = "the output `n` of the plan has no value: "
REASON = "has no `missing`"


def test_an_output_of_the_plan_without_a_value_fails_the_run_in_every_view(run, plan):
    ran = run("exec", plan(OUTPUT))
    assert ran.code == 1
    assert WHY in ran.out + ran.err
    assert REASON in ran.out + ran.err
    told = run("exec", "p.yaml", "--json")
    found = json.loads(told.out)
    assert (told.code, found["exit_code"], found["status"], found["reason"]) == (1, 1, "failed", "outputs")
    assert found["detail"].startswith(WHY)
    assert REASON in found["detail"]
    assert found["tasks"]["a"]["status"] == "completed"
    assert WHY in run("show", "last").out
    assert f"the run failed: {WHY}" in run("why", "a").out


def test_an_output_of_a_linked_plan_without_a_value_fails_the_task_that_links_it(run, plan):
    plan(OUTPUT, "inner.yaml")
    ran = run("exec", plan("plan: q\ntasks:\n  - {id: link, subplan: ./inner.yaml, timeout: 10m}\n"))
    assert ran.code == 1
    assert "link failed" in ran.out + ran.err
    assert REASON in ran.out + ran.err


EDGE = f"""
plan: p
tasks:
  - id: a
    run: {GIVES.split(", outputs", maxsplit=1)[0]}
    outputs: {{j: map}}
    timeout: 10m
    next:
      - {{to: b, when: outputs.j.there}}
      - {{to: c, when: outputs.j.missing > 3}}
  - {{id: b, run: "true", timeout: 10m}}
  - {{id: c, run: "true", timeout: 10m}}
""".replace("j={}", 'j={"there": true}'.replace('"', '\\"'))


@pytest.mark.parametrize("linked", [False, True])
def test_the_place_of_a_task_that_fails_by_an_edge_is_that_of_the_condition(run, plan, tmp_path: Path, linked: bool):
    text = EDGE
    name = plan(text, "edges.yaml")
    if linked:
        name = plan("plan: q\ntasks:\n  - {id: link, subplan: ./edges.yaml, timeout: 10m}\n")
    ran = run("exec", name)
    assert ran.code == 1
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "missing" in each)
    column = text.splitlines()[line - 1].index("outputs.j.missing") + 1
    assert f"place    edges.yaml:{line}:{column}" in ran.out + ran.err
    assert "`outputs.j.missing > 3`, the condition of its edge to `c`, has no value" in ran.out + ran.err
