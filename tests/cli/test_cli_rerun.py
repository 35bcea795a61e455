"""``retry`` and ``rerun`` in a real process: the stale set, tasks inside others, and a plan file that was edited."""

from __future__ import annotations

import json

PLAN = """
plan: p
on_failure: continue
tasks:
  - {id: src, run: 'echo "list=$(cat list)" >> "$PLANRUNNER_OUTPUT"', outputs: {list: list}, timeout: 1m}
  - {id: fan, needs: [src], foreach: tasks.src.outputs.list, run: 'echo {{ item }} >> did', timeout: 1m}
  - id: polish
    needs: [fan]
    timeout: 1m
    loop:
      max: 2
      tasks:
        - id: each
          foreach: [1, 2]
          subplan:
            - {id: draft, run: 'echo draft{{ item }}.{{ loop.round }} >> did', timeout: 1m}
  - {id: end, needs: [polish], run: echo end >> did, timeout: 1m}
finally:
  - {id: tidy, run: echo tidy >> did, timeout: 1m}
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
    assert run("rerun", "last", "src").code == 0
    assert did(tmp_path) == ["new", "tidy"]
    shown = json.loads(run("show", "last", "--json").out)
    assert shown["status"] == "completed"
    assert run("rerun", "last", "src", "--downstream").code == 0
    assert len(did(tmp_path)) == 3 + 4 + 2
    assert run("replay", "last").code == 0


def test_the_preview_tells_what_surely_runs_and_what_only_perhaps_by_digest(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = json.loads(run("rerun", "last", "src", "--preview", "--json").out)
    assert (told["again"], told["perhaps"]) == (["src", "tidy"], ["fan", "polish", "end"])
    assert told["finals"] == ["tidy"]
    assert told["inside"]["fan"] == ["fan[0]", "fan[1]"]
    assert len(told["inside"]["polish"]) == 4
    assert set(told["calls"]) == {"src", "tidy", "end"}
    text = run("rerun", "last", "src", "--preview").out
    assert f"    src     was called with {told['calls']['src'][:12]}\n" in text
    assert "    fan     2 tasks inside are compared one by one\n" in text
    assert "    tidy    was called with" in text
    assert ", under `finally`\n" in text
    assert did(tmp_path) == []


def test_a_single_item_and_a_task_deep_inside_run_again_by_path(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    assert run("rerun", "last", "fan[1]").code == 0
    assert did(tmp_path) == ["q", "tidy"]
    assert run("retry", "last", "polish@2#2/each[1]/draft").code == 0
    assert did(tmp_path) == ["draft2.2", "end", "tidy"]


def test_a_path_without_its_round_means_the_round_that_stands(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = run("rerun", "last", "each[0]/draft")
    assert told.code == 0, told.err
    assert did(tmp_path) == ["draft1.2", "tidy"]


def test_a_task_of_a_round_that_is_over_is_refused_with_what_can_begin_anew(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    told = run("rerun", "last", "polish#1/each[0]/draft")
    assert told.code == 2
    assert "`polish#2/each[0]/draft` can begin anew" in told.err
    assert did(tmp_path) == []


def test_a_run_whose_plan_file_was_edited_keeps_its_plan_and_says_what_begins_or_compares(run, plan, tmp_path):
    begin(run, plan, tmp_path)
    plan(PLAN.replace("echo end", "echo other"))
    for command in (["rerun", "last", "end"], ["retry", "last", "end"], ["rerun", "last", "end", "--preview"]):
        told = run(*command)
        assert told.code == 0
        [line] = [line for line in told.err.splitlines() if "was edited since" in line]
        assert line.startswith("the plan file p.yaml was edited since and differs: run ")
        assert "`planrunner exec p.yaml` begins a new run" in line
    assert did(tmp_path) == ["end", "tidy"] * 2
    compare = line.rpartition("`planrunner ")[2].partition("`")[0].split()
    assert compare[0] == "replay"
    assert "end" in run(*compare).out


def test_a_run_that_is_resumed_says_that_its_plan_file_was_edited(run, plan, tmp_path):
    text = "plan: p\ntasks:\n  - {id: a, gate: approval, ask: go on}\n"
    assert run("exec", plan(text)).code == 8
    assert "was edited since" not in run("resume", "last").err
    plan(text + "  - {id: b, needs: [a], run: echo b, timeout: 1m}\n")
    assert "the plan file p.yaml was edited since and differs" in run("resume", "last").err
    (tmp_path / "p.yaml").unlink()
    assert "was edited since" not in run("resume", "last").err
