"""A matrix on the command line: its items are told and named by their values."""

from __future__ import annotations

import json
import shlex

PLAN = """
plan: p
defaults: {timeout: 1m}
on_failure: continue
tasks:
  - id: test
    matrix: {seed: [1, 2]}
    run: echo seed {{ matrix.seed }}; test {{ matrix.seed }} = 1
"""


def test_progress_show_why_logs_and_failures_name_the_values(run, plan):
    ran = run("exec", plan(PLAN), "--progress", "plain")
    assert "test[seed=1] completed" in ran.err
    assert "test[seed=2] failed (logic)" in ran.err
    assert "the first is `test[seed=2]`" in ran.err
    assert "test[1]" not in ran.err
    shown = run("show", "--timeline").out
    assert "[seed=2]" in shown
    assert "test[1]" not in shown
    assert run("why", "test").out.count("`test[seed=2]`") == 3
    assert run("logs", "last", "test[seed=2]").out == "seed 2\n"
    assert "==> test[seed=1], attempt 1 <==" in run("logs").err


def test_the_command_that_a_failure_names_tries_that_item_again(run, plan):
    run("exec", plan(PLAN))
    told = run("retry", "last", "test[seed=2]", "--preview").out
    assert "test[1]" in told
    assert "test[0]" not in told


def test_the_command_that_a_gate_names_decides_it(run, plan):
    text = """
plan: p
defaults: {timeout: 1m}
tasks:
  - id: ship
    matrix: {env: [dev, prod]}
    subplan:
      - {id: ask, gate: approval, ask: "Ship {{ matrix.env }}?"}
"""
    run("exec", plan(text))
    command = next(line for line in run("gates").out.splitlines() if "approve" in line and "env=prod" in line)
    assert run(*shlex.split(command)[1:]).code == 0
    assert [gate["gate"] for gate in json.loads(run("gates", "--json").out)["gates"]] == ["ship[0]/ask"]
