"""``retry`` and ``rerun`` in a real process: the stale set, tasks inside others, and a plan file that was edited."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest
from workbench import ROOT

PLAN = """
plan: p
on_failure: continue
tasks:
  - {id: src, run: 'echo "list=$(cat list)" >> "$PLANRUNNER_OUTPUT"', outputs: {list: list}, timeout: 10m}
  - {id: fan, needs: [src], foreach: tasks.src.outputs.list, run: 'echo {{ item }} >> did', timeout: 10m}
  - id: polish
    needs: [fan]
    timeout: 10m
    loop:
      max: 2
      tasks:
        - id: each
          foreach: [1, 2]
          subplan:
            - {id: draft, run: 'echo draft{{ item }}.{{ loop.round }} >> did', timeout: 10m}
  - {id: end, needs: [polish], run: echo end >> did, timeout: 10m}
finally:
  - {id: tidy, run: echo tidy >> did, timeout: 10m}
"""


def did(tmp_path) -> list[str]:
    """What ran since the last look."""
    found = (tmp_path / "did").read_text().split()
    (tmp_path / "did").write_text("")
    return found


def begin(run, plan, tmp_path) -> None:
    (tmp_path / "list").write_text('["p","q"]')
    assert run("exec", plan(PLAN)).code == 0
    assert sorted(did(tmp_path))[-2:] == ["q", "tidy"]


def test_a_rerun_runs_only_what_would_be_called_otherwise_and_finally(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    (tmp_path / "list").write_text('["new","p","q"]')
    assert run("rerun", "last", "src", "--keep-unchanged").code == 0
    assert did(tmp_path) == ["new", "tidy"]
    shown = json.loads(run("show", "last", "--json").out)
    assert shown["status"] == "completed"
    assert run("rerun", "last", "src", "--downstream").code == 0
    assert len(did(tmp_path)) == 3 + 4 + 2
    assert run("replay", "last").code == 0


def test_what_comes_after_reads_the_files_of_a_task_that_runs_again(run, plan, tmp_path):
    (tmp_path / "in.txt").write_text("old")
    tasks = "{id: load, run: cp in.txt db.txt}, {id: report, needs: [load], run: cat db.txt > report.txt}"
    assert run("exec", plan(f"{{plan: p, defaults: {{timeout: 10m}}, tasks: [{tasks}]}}")).code == 0
    (tmp_path / "in.txt").write_text("new")
    assert run("rerun", "last", "load").code == 0
    assert (tmp_path / "report.txt").read_text() == "new"


def test_all_and_only_what_changed_downstream_exclude_each_other(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = run("rerun", "last", "src", "--downstream", "--keep-unchanged")
    assert told.code == 2
    assert "--downstream and --keep-unchanged exclude each other" in told.err
    assert did(tmp_path) == []


def test_the_preview_tells_what_surely_runs_and_what_only_perhaps_by_digest(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = json.loads(run("rerun", "last", "src", "--keep-unchanged", "--preview", "--json").out)
    assert (told["again"], told["perhaps"]) == (["src", "tidy"], ["fan", "polish", "end"])
    assert told["finals"] == ["tidy"]
    assert told["inside"]["fan"] == ["fan[0]", "fan[1]"]
    assert len(told["inside"]["polish"]) == 4
    assert set(told["calls"]) == {"src", "tidy", "end"}
    text = run("rerun", "last", "src", "--keep-unchanged", "--preview").out
    assert f"    src     was called with {told['calls']['src'][:12]}\n" in text
    assert "    fan     2 inner tasks are compared one by one\n" in text
    assert "    tidy    was called with" in text
    assert ", under `finally`\n" in text
    assert did(tmp_path) == []


def test_a_single_item_and_a_task_deep_inside_run_again_by_path(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    assert run("rerun", "last", "fan[1]", "--keep-unchanged").code == 0
    assert did(tmp_path) == ["q", "tidy"]
    assert run("rerun", "last", "polish@2#2/each[1]/draft", "--keep-unchanged").code == 0
    assert did(tmp_path) == ["draft2.2", "tidy"]


def test_a_path_without_its_round_means_the_round_that_stands(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = run("rerun", "last", "each[0]/draft", "--keep-unchanged")
    assert told.code == 0, told.err
    assert did(tmp_path) == ["draft1.2", "tidy"]


def test_a_task_of_a_round_that_is_over_is_refused_with_what_can_begin_anew(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = run("rerun", "last", "polish#1/each[0]/draft")
    assert told.code == 2
    assert "`polish#2/each[0]/draft` can be reset" in told.err
    assert did(tmp_path) == []


def test_a_run_whose_plan_file_was_edited_keeps_its_plan_and_says_how_to_go_on_with_the_edit(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    plan(PLAN.replace("echo end", "echo other"))
    for command in (["rerun", "last", "end"], ["rerun", "last", "end", "--preview"]):
        told = run(*command)
        assert told.code == 0
        [line] = [line for line in told.err.splitlines() if "has changed since run " in line]
        assert line.startswith("p.yaml has changed since run ")
    assert did(tmp_path) == ["end", "tidy"]
    command = line.partition("continue with it: planrunner ")[2].split()
    assert (command[0], command[2:]) == ("resume", ["--plan", "p.yaml"])
    assert run(*command).code == 0
    assert did(tmp_path) == ["other", "tidy"]


def test_a_run_that_is_resumed_says_that_its_plan_file_was_edited(run, plan, tmp_path):
    text = "plan: p\ntasks:\n  - {id: a, gate: approval, ask: go on}\n"
    assert run("exec", plan(text)).code == 8
    assert "has changed since" not in run("resume", "last").err
    plan(text + "  - {id: b, needs: [a], run: echo b, timeout: 10m}\n")
    assert "p.yaml has changed since run " in run("resume", "last").err
    (tmp_path / "p.yaml").unlink()
    assert "has changed since" not in run("resume", "last").err


UNDONE = """
plan: p
on_failure: rollback
defaults: {timeout: 10m}
tasks:
  - id: each
    foreach: [a, b]
    as: name
    max_parallel: 1
    subplan:
      - {id: make, run: 'echo made-{{ name }} >> did', rollback: {run: 'echo unmade-{{ name }} >> did'}}
      - {id: look, needs: [make], run: 'test -e go -o {{ name }} = a'}
  - id: rounds
    needs: [each]
    loop:
      max: 2
      tasks:
        - {id: add, run: 'echo added-{{ loop.round }} >> did', rollback: {run: 'echo took-{{ loop.round }} >> did'}}
  - {id: bad, needs: [rounds], run: test -e on}
"""


def test_a_retry_after_a_rollback_does_again_whatever_was_undone(run, plan, tmp_path):
    assert run("exec", plan(UNDONE)).code == 1
    assert did(tmp_path) == ["made-a", "made-b", "unmade-b", "unmade-a"]
    (tmp_path / "go").touch()
    assert run("retry", "last").code == 1
    assert did(tmp_path)[:4] == ["made-a", "made-b", "added-1", "added-2"]
    (tmp_path / "on").touch()
    (tmp_path / "did").write_text("")
    told = json.loads(run("retry", "last", "--preview", "--json").out)
    assert set(told["again"]) >= {"each[0]/make", "each[1]/make", "rounds", "bad"}
    assert run("retry", "last").code == 0
    assert did(tmp_path) == ["made-a", "made-b", "added-1", "added-2"]
    assert run("replay", "last").code == 0


def test_what_was_replaced_is_not_counted_at_the_end(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    first = run("show", "last").out.splitlines()[-1]
    assert run("rerun", "last", "src", "--downstream").code == 0
    again = run("show", "last").out.splitlines()[-1]
    assert first.split(": ")[1].split(" (")[0] == again.split(": ")[1].split(" (")[0] == "9 completed"


LINKED = """
plan: p
defaults: {timeout: 10m}
subplans:
  one:
    on_failure: rollback
    params: {h: {type: string}}
    tasks:
      - {id: up, run: 'echo up-{{ params.h }} >> did', rollback: {run: 'echo down-{{ params.h }} >> did'}}
      - {id: check, needs: [up], run: 'test {{ params.h }} != b'}
tasks:
  - FIRST
  - {id: fix, run: echo fix >> did}
  - {id: charge, needs: [fan], run: echo charged >> did}
"""
GOT_OVER = {
    "tolerated": "{id: fan, foreach: [a, b], as: x, max_parallel: 1, tolerate: 1, subplan: one, params: {h: '{{ x }}'}}",
    "allowed": "{id: fan, subplan: one, params: {h: b}, allow_failure: true}",
    "recovered": "{id: fan, subplan: one, params: {h: b}, on_failure: {to: fix, recovers: true}}",
    "a later round": "{id: fan, loop: {max: 2, until: tasks.dep.ok, tasks: [{id: dep, subplan: one,"
    ' params: {h: \'{{ "b" if loop.round == 1 else "c" }}\'}}]}}',
}


@pytest.mark.parametrize("first", GOT_OVER.values(), ids=GOT_OVER)
def test_a_failure_that_the_run_got_over_is_not_tried_again_for_being_undone(run, plan, tmp_path, first):
    assert run("exec", plan(LINKED.replace("FIRST", first))).code == 0
    done = did(tmp_path)
    assert "charged" in done
    assert any(line.startswith("down") for line in done)
    ran = run("retry", "last")
    assert ran.code == 2, ran.out
    assert re.search("no failure to rerun|no task of the run failed, was cancelled or was undone", ran.err)
    assert did(tmp_path) == []


def test_a_task_that_went_well_is_not_retried_by_name(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    for task in ("src", "fan[1]", "polish"):
        ran = run("retry", "last", task)
        assert ran.code == 2
        assert f"`{task}` went well" in ran.err
        assert "planrunner rerun" in ran.err
    assert did(tmp_path) == []


ROUNDS = """
plan: rounds
defaults: {timeout: 10m}
tasks:
  - id: think
    loop:
      max: 3
      until: loop.round == 3
      tasks:
        - {id: one, run: echo one}
        - {id: two, needs: [one], run: 'test {{ loop.round }} -lt 3 -o -e go'}
  - {id: after, needs: [think], run: echo after}
"""


def test_what_stays_is_counted_inside_tasks_too_in_every_round_that_stands(run, plan, tmp_path):
    assert run("exec", plan(ROUNDS)).code == 1
    assert "  5 completed tasks are reused\n" in run("retry", "last", "--preview").out
    assert "  0 completed tasks are reused\n" in run("rerun", "last", "think", "--preview").out
    (tmp_path / "go").touch()
    assert run("retry", "last").code == 0
    assert "  6 completed tasks are reused\n" in run("rerun", "last", "after", "--preview").out


def test_a_run_that_another_process_acts_on_is_not_begun_anew(run, plan, tmp_path):
    name = plan(
        "plan: p\ntasks:\n  - {id: a, timeout: 10m, run: 'echo $PPID > pid; until [ -e go ]; do sleep 0.05; done'}\n"
    )
    going = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", name, "--progress", "quiet"],
        cwd=tmp_path,
        env={**os.environ, "PLANRUNNER_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)},
    )
    try:
        until = time.monotonic() + 240
        while not (tmp_path / "pid").exists() and time.monotonic() < until:
            time.sleep(0.02)
        for command in (["retry", "last"], ["retry", "last", "a"], ["rerun", "last", "a"]):
            ran = run(*command)
            assert ran.code == 9, ran.err
            assert f"is held by process {going.pid}" in ran.err
            assert "re-runs:" not in ran.err
    finally:
        (tmp_path / "go").touch()
        assert going.wait(240) == 0


def test_a_retry_where_only_failures_that_are_allowed_stand_names_rerun(run, plan, tmp_path):
    fan = "  - {id: fan, foreach: [1, 2, 3], tolerate: 1, run: 'test {{ item }} -ne 2 -o -e go', timeout: 10m}\n"
    assert run("exec", plan(f"plan: p\ntasks:\n{fan}")).code == 0
    ran = run("retry", "last")
    assert ran.code == 2
    assert "no failure to rerun: the failure of `fan[1]` is allowed" in ran.err
    command = ran.err.splitlines()[-1].partition("planrunner ")[2]
    assert command.startswith("rerun ")
    (tmp_path / "go").touch()
    assert run(*shlex.split(command)).code == 0
    assert "no task of the run failed, was" in run("retry", "last").err


@pytest.mark.parametrize("command", ["retry", "rerun"])
def test_progress_is_shown_as_it_is_asked_for(run, plan, command):
    run("exec", plan("plan: p\ntasks:\n  - {id: a, run: exit 1, timeout: 10m}\n"))
    quiet = run(command, "last", "a", "--progress", "quiet")
    assert quiet.code == 1
    assert "re-runs:" not in quiet.err
    assert "started" not in quiet.err
    lines = [json.loads(line) for line in run(command, "last", "a", "--progress", "jsonl").out.splitlines()]
    assert "attempt_started" in {line["type"] for line in lines}
    assert run(command, "last", "a", "--progress", "loud").code == 2


def test_what_failed_in_a_fan_out_that_still_waits_for_people_is_retried(run, plan, tmp_path):
    text = (
        "plan: p\non_failure: continue\ntasks:\n  - id: fan\n    foreach: [1, 2]\n    subplan:\n"
        "      - {id: x, run: 'test {{ item }} = 1 || test -e ready', timeout: 10m}\n"
        "      - {id: g, needs: [x], ask: 'so?'}\n"
    )
    assert run("exec", plan(text)).code == 8
    assert "planrunner retry" in run("show").out
    (tmp_path / "ready").touch()
    assert run("retry", "last").code == 8
    shown = json.loads(run("show", "--json").out)
    assert shown["waiting"] == ["fan[0]/g", "fan[1]/g"]
    assert shown["tasks"]["fan[0]/x"]["attempts"] == 1
    assert shown["tasks"]["fan[1]/x"]["status"] == "completed"
    assert run("retry", "last").code == 2
    assert json.loads(run("replay", "last", "--json").out)["exact"]
