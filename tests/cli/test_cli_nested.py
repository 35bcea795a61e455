"""Runs whose tasks hold others, from the outside: paths, logs, reasons, drawings, resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workbench import ROOT

PLAN = """\
plan: p
defaults: {timeout: 10m}
on_failure: continue
tasks:
  - id: fan
    foreach: [ada, bob, cy]
    run: |
      echo "hello {{ item }}"
      test {{ item }} != bob
  - id: polish
    loop:
      max: 3
      until: loop.round == 2
      tasks:
        - id: draft
          run: echo "draft {{ loop.round }}"
  - id: a
    subplan:
      - id: b
        run: echo inside
  - id: a_b
    run: echo beside
"""


def test_logs_of_a_task_are_those_of_all_it_holds(run, plan):
    assert run("exec", plan(PLAN)).code == 1
    assert run("logs", "last", "fan").out == "hello ada\nhello bob\nhello cy\n"
    assert run("logs", "last", "fan[1]").out == "hello bob\n"
    assert run("logs", "last", "polish").out == run("logs", "last", "draft").out == "draft 1\ndraft 2\n"
    assert run("logs", "last", "polish#2").out == "draft 2\n"
    assert [run("logs", "last", name).out for name in ("a/b", "b", "a", "a_b")] == ["inside\n"] * 3 + ["beside\n"]


def test_a_path_is_found_by_its_end_and_an_unclear_one_is_refused_with_those_it_may_be(run, plan):
    run("exec", plan(PLAN))
    found = json.loads(run("why", "b", "--json").out)
    assert (found["task"], found["status"]) == ("a/b", "completed")
    unclear = run("why", "draft")
    assert unclear.code == 3
    assert "say which: polish#1/draft, polish#2/draft" in unclear.err
    assert "did you mean `polish#2/draft`?" in run("why", "polish#2/darft").err
    assert "`fan[7]` has not started in this run: `fan`, its container, failed" in run("why", "fan[7]").err
    assert "`polish`, its container, completed" in run("logs", "last", "polish#3/draft").err


def test_a_round_of_a_loop_is_explained_as_a_whole(run, plan):
    loop = "  - id: outer\n    subplan:\n      - id: tune\n        loop:\n          max: 3\n          until: loop.round == 2\n"
    inner = "          tasks:\n            - {id: t, run: test 1 = 1}\n            - {id: v, needs: [t], run: echo v}\n"
    assert run("exec", plan(f"plan: p\ndefaults: {{timeout: 10m}}\ntasks:\n{loop}{inner}")).code == 0
    told = run("why", "last", "outer/tune#1")
    assert told.code == 0, told.err
    assert told.out.splitlines() == [
        "`outer/tune#1` is a round of `outer/tune`: completed",
        "round 1 of at most 3: 2 of 2 tasks done",
        "`until: loop.round == 2` is false after round 1",
        "another round followed; `outer/tune` came to round 2",
        "  `outer/tune#1/t` completed",
        "  `outer/tune#1/v` completed",
    ]
    found = json.loads(run("why", "tune#2", "--json").out)
    assert (found["task"], found["status"]) == ("outer/tune#2", "completed")
    assert "`until: loop.round == 2` is true after round 2" in found["why"]
    assert run("why", "last", "tune#7").code == 3


def test_the_block_of_a_failed_item_names_its_place_in_the_file(run, plan):
    told = run("exec", plan(PLAN))
    assert told.err.count("✘ fan[1] failed (logic)") == 1
    assert "  place    p.yaml:5:9\n" in told.err
    assert "  in       fan (item 1: bob, 1 of 3 failed)\n" in told.err
    assert run("show").out.count("  place    p.yaml:5:9\n") == 1


def test_drawings_of_a_run_are_coloured_by_what_is_inside(run, plan):
    run("exec", plan(PLAN))
    nodes = json.loads(run("graph", "--run", "last", "--format", "json").out)["nodes"]
    assert {node["id"]: node["status"] for node in nodes} == {
        "fan": "failed",
        "polish": "completed",
        "polish/draft": "completed",
        "a": "completed",
        "a/b": "completed",
        "a_b": "completed",
    }


def test_paths_are_completed_and_of_very_many_only_the_outermost(run, plan, complete):
    run("exec", plan(PLAN))
    assert list(complete("logs", "last", "pol")) == ["polish", "polish#1/draft", "polish#2/draft"]
    items = ", ".join(map(str, range(400)))
    many = f"plan: p\ntasks:\n  - {{id: fan, uses: noop, foreach: [{items}]}}\n"
    run("exec", plan(many))
    offered = list(complete("why", "last", "fa"))
    assert len(offered) == 200
    assert offered[0] == "fan"


def test_nothing_that_holds_others_is_in_doubt_after_a_kill_and_doubts_are_settled_by_path(run, plan, tmp_path):
    slow = "plan: p\ndefaults: {timeout: 10m}\ntasks:\n  - id: sub\n    subplan:\n      - {id: a, run: sleep 300}\n"
    child = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", plan(slow), "--progress", "jsonl"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    while '"task":"sub/a"' not in child.stdout.readline():
        assert child.poll() is None
    time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait(240)
    tasks = json.loads(run("show", "--json").out)["tasks"]
    assert {name: task["status"] for name, task in tasks.items()} == {"sub": "paused", "sub/a": "in_doubt"}
    assert run("why", "sub").out.startswith("`sub` waits for its tasks\n")
    done = run("resume", "last", "--settle", "a=completed", "--json")
    assert (done.code, json.loads(done.out)["status"]) == (0, "completed"), done.err


@pytest.fixture
def doubtful(run, plan, tmp_path) -> Path:
    """The state of a run whose three items of `f` and `g/one` were cut off; what runs again ends at once."""
    text = "plan: p\ndefaults: {timeout: 10m}\ntasks:\n  - {id: f, foreach: [x, y, z], run: 'RUN'}\n"
    text += "  - {id: g, subplan: [{id: one, run: 'RUN'}]}\n"
    text = text.replace("RUN", "echo run >> ran; test -e go || sleep 300")
    child = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", plan(text), "--progress", "quiet"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
    )
    until = time.monotonic() + 240
    while time.monotonic() < until and not ((tmp_path / "ran").exists() and len((tmp_path / "ran").read_text()) == 16):
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait(240)
    (tmp_path / "go").touch()
    return tmp_path / "ran"


def statuses(ran) -> dict[str, str]:
    return {name: task["status"] for name, task in json.loads(ran.out)["tasks"].items()}


def test_a_pattern_settles_every_task_that_fits_and_what_is_said_last_counts(run, doubtful):
    done = run("resume", "last", "--settle", "f[*]=failed", "--settle", "f[1]=completed", "--settle", "*/one=completed",
               "--json")  # fmt: skip
    assert statuses(done) == {
        "f": "failed", "f[0]": "failed", "f[1]": "completed", "f[2]": "failed", "g": "completed", "g/one": "completed",
    }  # fmt: skip
    assert len(doubtful.read_text().split()) == 4
    assert run("replay", "last").code == 0


def test_all_settles_every_task_in_doubt_and_what_is_said_later_of_one_counts(run, doubtful):
    done = run("resume", "last", "--settle", "all=completed", "--settle", "f[1]=failed", "--json")
    assert statuses(done) == {
        "f": "failed", "f[0]": "completed", "f[1]": "failed", "f[2]": "completed", "g": "completed",
        "g/one": "completed",
    }  # fmt: skip
    assert len(doubtful.read_text().split()) == 4


def test_all_settles_nothing_where_nothing_is_in_doubt(run, plan):
    file = plan("plan: p\ntasks:\n  - {id: ok, gate: approval, ask: 'Go on?'}\n")
    assert run("exec", file, "--unattended").code == 8
    assert run("resume", "last", "--settle", "all=retry", "--unattended").code == 8


def test_a_task_called_all_is_settled_alone(run, plan, tmp_path):
    slow = "plan: p\ndefaults: {timeout: 10m}\ntasks:\n  - {id: all, run: 'RUN'}\n  - {id: b, run: 'RUN'}\n"
    slow = slow.replace("RUN", "echo run >> ran; sleep 300")
    child = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", plan(slow), "--progress", "quiet"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
    )
    until = time.monotonic() + 240
    while time.monotonic() < until and not ((tmp_path / "ran").exists() and len((tmp_path / "ran").read_text()) == 8):
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait(240)
    done = run("resume", "last", "--settle", "all=completed", "--json")
    assert (done.code, statuses(done)) == (8, {"all": "completed", "b": "in_doubt"})


def test_a_task_that_holds_others_stands_for_what_is_in_doubt_inside_it(run, doubtful):
    done = run("resume", "last", "--settle", "f=completed", "--json")
    assert done.code == 8
    assert statuses(done) == {
        "f": "completed", "f[0]": "completed", "f[1]": "completed", "f[2]": "completed", "g": "blocked",
        "g/one": "in_doubt",
    }  # fmt: skip
    wrong = run("resume", "last", "--settle", "f=retry")
    assert (wrong.code, "nothing inside `f` is in doubt" in wrong.err) == (2, True)
    wrong = run("resume", "last", "--settle", "f[*]=retry")
    assert (wrong.code, "no task in doubt fits `f[*]`" in wrong.err) == (2, True)
    done = run("resume", "last", "--settle", "g=retry", "--json")
    assert done.code == 0
    assert len(doubtful.read_text().split()) == 5
