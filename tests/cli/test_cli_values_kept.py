"""Values keep their kind after a kill, in a revision, in the page of a run and in its report: texts that look like
numbers, false, 0, "", and outputs that are not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLAN = """plan: p
defaults: {timeout: 30s}
params: {word: {type: string, default: 1.10}}
tasks:
  - {id: f, uses: files.write, with: {path: out, content: "12345"}}
  - id: text
    run: "true"
    outputs:
      kept: {type: string, value: 007}
      zero: {type: int, value: 0}
      not: {type: bool, value: false}
      none: {type: string, value: ""}
  - {id: absent, when: "params.word == 'x'", run: "true", outputs: {x: {type: int, value: 1}}}
  - {id: stop, needs: [text, f], run: 'test -e going || { touch going; kill -9 $PPID; sleep 60; }'}
  - id: asks
    needs: [stop]
    gate: approval
    ask: "Go on with {{ params.word }}?"
    form: {b: {type: bool, default: false}, i: {type: int, default: 0}, s: {type: string, default: ""}, v: {type: string, default: 3.10}}
  - id: reads
    needs: [asks, absent, text, f]
    join: "asks.ok and text.ok and f.ok and absent.done"
    when: "tasks.f.outputs.size > 4B"
    run: >-
      echo "{{ params.word }} {{ tasks.text.outputs.kept }} {{ tasks.text.outputs.zero }} {{ tasks.text.outputs.not }}
      <{{ tasks.text.outputs.none }}> {{ default(tasks.absent.outputs.x, 5) }} {{ tasks.asks.outputs.b }}
      {{ tasks.asks.outputs.i }} <{{ tasks.asks.outputs.s }}> {{ tasks.asks.outputs.v }}"
"""
SAID = "2.50 007 0 false <> 5 false 0 <> 3.10"
OUTPUTS = {"kept": "007", "zero": 0, "not": False, "none": ""}
ANSWERS = {"b": False, "i": 0, "s": "", "v": "3.10"}


def test_after_a_kill_and_in_every_account_of_the_run(
    run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path
) -> None:
    killed = run("exec", plan(PLAN), "-p", "word=2.50", "--no-wait")
    assert killed.code not in (0, 1, 2, 8), killed.err
    assert run("resume", "last", "--settle", "stop=retry", "--unattended").code == 8
    assert run("approve", "last", "asks", "--resume").code == 0
    assert run("logs", "last", "reads").out.strip() == SAID
    assert_kept(run)
    events = run("events", "last", "--json").out
    assert '"007"' in events and '"2.50"' in events and run("replay", "last").code == 0
    assert run("report", "last", "-o", "r.html").code == 0
    report = (tmp_path / "r.html").read_text()
    assert all(re.search(rf"\b{text}\b", report) for text in (r"2\.50", "007", r"3\.10"))
    assert "Go on with 2.50?" in report


def test_in_a_revision(run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "going").touch()
    again = plan(PLAN.replace('echo "{{ params', 'echo "again {{ params'), "q.yaml")
    assert run("exec", plan(PLAN), "-p", "word=2.50", "--no-wait").code == 8
    assert run("revise", "last", again, "--reason", "other words").code == 0
    assert run("approve", "last", "asks", "--resume").code == 0
    assert run("logs", "last", "reads").out.strip() == f"again {SAID}"
    assert_kept(run)


def assert_kept(run: Callable[..., Any]) -> None:
    tasks = run("show", "last", "--json").data["tasks"]
    assert {name: tasks["text"]["outputs"][name] for name in OUTPUTS} == OUTPUTS
    assert {name: tasks["asks"]["outputs"][name] for name in ANSWERS} == ANSWERS
    assert tasks["absent"]["status"] == "skipped" and not tasks["absent"].get("outputs")
