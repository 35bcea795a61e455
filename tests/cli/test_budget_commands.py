"""Budgets and limits on time through the real command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import commands
import pytest
from commands import Ran
from workbench import ROOT


def environment(state: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
    return {**kept, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(state)}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    def call(*arguments: str) -> Ran:
        return commands.run(*arguments, folder=tmp_path, env=environment(tmp_path / "state"))

    return call


def write(folder: Path, text: str) -> None:
    (folder / "p.yaml").write_text(text)


SPENDER = """\
plan: spender
budgets: {cost: $1, on_exhausted: HOW}
defaults: {timeout: 2m}
tasks:
  - id: one
    run: echo 'cost=$0.25' > "$PLANRUNNER_USAGE"
    budgets: {cost: $0.50}
  - id: two
    run: |
      echo '{"cost": 0.4}' > "$PLANRUNNER_USAGE"
    budgets: {cost: $0.50}
    needs: [one]
  - id: three
    run: echo nothing told
    budgets: {cost: $0.50}
    needs: [two]
"""


def test_a_used_up_budget_ends_the_run_with_code_6(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(tmp_path, SPENDER.replace("HOW", "stop"))
    done = run("exec", "p.yaml", "--json")
    assert done.code == 6
    assert (done.data["status"], done.data["reason"]) == ("failed", "budget")
    assert done.data["budget"]["cost"] == {"used": 0.65, "reserved": 0, "limit": 1.0}
    assert done.data["tasks"]["one"]["budget"]["cost"] == {"used": 0.25, "reserved": 0, "limit": 0.5}
    assert "$0.50 needed, $0.35 left of $1" in done.data["tasks"]["three"]["detail"]


def test_a_run_that_asks_goes_on_when_the_budget_is_extended(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(tmp_path, SPENDER.replace("HOW", "gate"))
    assert run("exec", "p.yaml").code == 8
    assert run("resume", "last").code == 8
    assert run("budget", "last", "--add", "tokens=5").code == 2
    assert run("budget", "last", "--add", "cost=much").code == 2
    said = run("budget", "last", "--add", "cost=$0.50", "--reason", "worth it")
    assert said.code == 0
    assert "the budget is extended; a task waited for it" in said.err
    done = run("resume", "last", "--json")
    assert done.code == 0
    assert done.data["budget"]["cost"] == {"used": 1.15, "reserved": 0, "limit": 1.5}
    [extended] = [
        event
        for line in run("events", "last", "--json").out.splitlines()
        if (event := json.loads(line))["type"] == "budget_extended"
    ]
    assert (extended["scope"], extended["what"], extended["amount"], extended["comment"]) == (
        "",
        "cost",
        0.5,
        "worth it",
    )
    assert run("replay", "last").code == 0
    assert "the plan  cost      $1.15             $1.50" in run("budget", "last").out


def test_a_killed_run_keeps_what_it_set_aside_and_never_starts_at_nought(
    tmp_path: Path, run: Callable[..., Ran]
) -> None:
    write(
        tmp_path,
        """\
plan: killed
budgets: {cost: $1}
defaults: {timeout: 2m}
tasks:
  - id: done
    run: echo 'cost=$0.30' > "$PLANRUNNER_USAGE"
    budgets: {cost: $0.40}
  - id: cut
    run: touch began; sleep 300
    effect: idempotent
    budgets: {cost: $0.60}
    needs: [done]
  - id: more
    run: echo more
    budgets: {cost: $0.50}
    needs: [cut]
""",
    )
    command = [sys.executable, "-m", "planrunner", "exec", "p.yaml"]
    runner = subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path / "state"), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (tmp_path / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    runner.send_signal(signal.SIGKILL)
    runner.wait(240)
    shown = run("show", "last", "--json").data
    assert shown["budget"]["cost"] == {"used": 0.3, "reserved": 0.6, "limit": 1.0}
    source = tmp_path / "p.yaml"
    assert "sleep 300" in source.read_text()
    sleeper = tmp_path / "bin"
    sleeper.mkdir()
    (sleeper / "sleep").write_text("#!/bin/sh\nexit 0\n")
    (sleeper / "sleep").chmod(0o755)
    found = environment(tmp_path / "state")
    found["PATH"] = f"{sleeper}:{found['PATH']}"
    again = [sys.executable, "-m", "planrunner", "resume", "last", "--json"]
    done = subprocess.run(again, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=240)
    data = json.loads(done.stdout)
    assert done.returncode == 6
    assert data["budget"]["cost"] == {"used": 0.9, "reserved": 0, "limit": 1.0}
    assert {name: task["status"] for name, task in data["tasks"].items()} == {
        "done": "completed",
        "cut": "completed",
        "more": "cancelled",
    }


TIMES = """\
plan: times
on_failure: continue
tasks:
  - id: silent
    run: echo hi; sleep 300
    heartbeat: 400ms
    timeout: 2m
  - id: chatty
    run: for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo $i; sleep 0.15; done
    heartbeat: 2s  # less than it takes, and a busy machine may try again
    retry: {attempts: 9, delay: 50ms, on: [any]}
    timeout: 2m
  - id: boxed
    run: sleep 300
    timebox: 700ms
    retry: {attempts: 5, delay: 50ms, on: [any]}
  - id: watched
    run: sleep 300
    timeout: 2m
    watchdog: [{after: 200ms, do: warn}, {after: 300ms, do: ask}, {after: 600ms, do: cancel}]
  - id: nap
    uses: sleep
    with: {duration: 1h}
    watchdog: [{after: 300ms, do: fail}]
"""


def test_what_is_silent_or_runs_too_long_is_stopped(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(tmp_path, TIMES)
    done = run("exec", "p.yaml", "--json")
    statuses = {name: task["status"] for name, task in done.data["tasks"].items()}
    assert statuses == {
        "silent": "failed",
        "chatty": "completed",
        "boxed": "failed",
        "watched": "cancelled",
        "nap": "failed",
    }
    assert "watched still runs after 200ms" in done.err
    assert "watched still runs after 300ms: let it continue, or end it with `planrunner cancel" in done.err
    why = run("why", "silent").out
    assert "(stalled): it gave no sign of life for 400ms" in why
    assert "its watchdog stopped it" in run("why", "nap").out
    assert run("replay", "last").code == 0


def test_a_retry_that_waits_gives_its_slot_to_others(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(
        tmp_path,
        """\
plan: slots
max_parallel: 1
defaults: {timeout: 2m}
tasks:
  - id: flaky
    run: test -e marker
    retry: {attempts: 2, delay: 1s, jitter: 0}
    priority: high
  - id: other
    run: touch marker
""",
    )
    done = run("exec", "p.yaml", "--json")
    assert done.code == 0
    assert done.data["tasks"]["flaky"]["attempts"] == 2


def test_somebody_stops_what_one_task_does_and_the_run_goes_on(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(
        tmp_path,
        """\
plan: calling-off
defaults: {timeout: 2m}
tasks:
  - id: stuck
    run: touch began; sleep 300
  - id: other
    run: while ! test -e enough; do sleep 0.05; done
  - id: after
    run: echo fine
    needs: [other]
""",
    )
    command = [sys.executable, "-m", "planrunner", "exec", "p.yaml", "--json"]
    found = environment(tmp_path / "state")
    runner = subprocess.Popen(command, cwd=tmp_path, env=found, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (tmp_path / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert run("cancel", "last", "--task", "nobody").code == 3
    assert "does not run" in run("cancel", "last", "--task", "after").err
    assert run("cancel", "last", "--task", "stuck", "--reason", "not needed").code == 0
    (tmp_path / "enough").touch()
    out, _ = runner.communicate(timeout=240)
    tasks = json.loads(out)["tasks"]
    assert {name: task["status"] for name, task in tasks.items()} == {
        "stuck": "cancelled",
        "other": "completed",
        "after": "completed",
    }
    assert "not needed" in tasks["stuck"]["detail"]
    assert runner.returncode == 1
    assert (json.loads(out)["status"], json.loads(out)["reason"]) == ("cancelled", "task")
    shown = run("show", "last").out
    assert "`stuck` was cancelled by" in shown
    assert "not needed" in shown
    assert run("replay", "last").code == 0


@pytest.mark.parametrize("onward", ["retry", "resume"])
def test_a_run_that_ended_for_lack_of_budget_goes_on_with_more(
    onward: str, tmp_path: Path, run: Callable[..., Ran]
) -> None:
    write(tmp_path, SPENDER.replace("HOW", "stop"))
    assert run("exec", "p.yaml").code == 6
    said = run("budget", "last", "--add", "cost=$5")
    assert said.code == 0
    assert "retry" in said.err
    listed = run("runs", "--json").data["runs"][0]
    assert (listed["status"], listed["reason"]) == ("paused", "budget")
    assert run("replay", "last").code == 0
    done = run(onward, "last", "--json")
    assert done.code == 0, done.err
    assert {name: task["attempts"] for name, task in done.data["tasks"].items()} == {"one": 1, "two": 1, "three": 1}
    assert run("replay", "last").code == 0
    refused = run("budget", "last", "--add", "cost=$5")
    assert refused.code == 2
    assert "has already completed" in refused.err


def test_a_task_out_of_its_own_budget_goes_on_with_more(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(
        tmp_path,
        """\
plan: own
defaults: {timeout: 2m}
tasks:
  - id: dear
    run: |
      echo 'cost=$0.50' > "$PLANRUNNER_USAGE"
      test -e ready
    budgets: {cost: $0.50}
    retry: {attempts: 3, delay: 10ms}
""",
    )
    first = run("exec", "p.yaml", "--json")
    assert "cost budget of `dear`" in first.data["tasks"]["dear"]["detail"]
    (tmp_path / "ready").touch()
    assert run("budget", "last", "--task", "dear", "--add", "cost=$1").code == 0
    assert run("retry", "last").code == 0
    assert run("replay", "last").code == 0


def test_a_run_that_ran_out_of_budget_names_the_commands_that_go_on_with_more(
    tmp_path: Path, run: Callable[..., Ran]
) -> None:
    write(tmp_path, SPENDER.replace("HOW", "stop"))
    ended = run("exec", "p.yaml")
    assert ended.code == 6
    assert " --add cost=AMOUNT" in ended.err
    assert " retry 2" in ended.err
    late = run("approve", "last", "budget", "--add", "cost=$5")
    assert late.code == 2
    assert "--add WHAT=AMOUNT`, then `planrunner" in late.err
    assert "budget 2" in late.err


def test_a_task_that_failed_for_its_own_budget_names_the_commands_that_go_on_with_more(
    tmp_path: Path, run: Callable[..., Ran]
) -> None:
    inner = "[{id: a, run: 'true', timeout: 2m}, {id: b, run: 'true', timeout: 2m}]"
    write(tmp_path, f"plan: p\ntasks:\n  - {{id: deep, budgets: {{attempts: 1}}, subplan: {inner}}}\n")
    ended = run("exec", "p.yaml")
    assert "--task deep --add attempts=AMOUNT" in ended.err, ended.err


def test_the_deadline_of_a_plan_is_named_and_no_budget_is_added_to_it(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(
        tmp_path,
        "plan: p\ndeadline: 2s\nbudgets: {time: 1h}\ntasks:\n  - {id: slow, run: sleep 300, timeout: 10m}\n",
    )
    ended = run("exec", "p.yaml")
    assert ended.code == 6
    assert "p failed (deadline)" in ended.err
    assert "the deadline of the plan (2s from the start of the run) has passed" in run("why", "slow").out
    added = run("budget", "last", "--add", "time=1h")
    assert added.code == 2
    assert "no budget prolongs it" in added.err
    assert run("replay", "last").code == 0


def test_a_deadline_that_has_passed_is_told_by_lint_and_before_anything_starts(
    tmp_path: Path, run: Callable[..., Ran]
) -> None:
    (tmp_path / "p.yaml").write_text(
        "plan: p\ndeadline: 2001-02-03\ntasks:\n  - {id: a, run: touch started, timeout: 1m, deadline: 2001-02-02}\n"
    )
    ended = run("exec", "p.yaml")
    assert ended.code == 5 and not (tmp_path / "started").exists()
    assert "the deadline of the plan has passed: 2001-02-03" in ended.err
    assert "the deadline of `a` has passed: 2001-02-02" in ended.err
    linted = run("lint", "p.yaml")
    assert linted.code == 1
    assert "the deadline of the plan has passed: 2001-02-03" in linted.out
    assert "the deadline of `a` has passed: 2001-02-02" in linted.out


LOOP = """\
  - id: l
    loop:
      max: 8
      until: "loop.round == 8"
      tasks:
        - id: x
          run: SPEND
"""
ITEMS = "  - {id: l, foreach: [1, 2, 3, 4, 5, 6], max_parallel: 1, run: SPEND}\n"
ROW = "".join(f"  - {{id: x{n}, needs: [{f'x{n - 1}' if n else ''}], run: SPEND}}\n" for n in range(6))
SUBPLANS = "".join(
    f"  - {{id: s{n}, needs: [{f's{n - 1}' if n else ''}], subplan: [{{id: x, run: SPEND}}]}}\n" for n in range(6)
)
SPEND = '\'echo \'\'{"cost": "$0.20", "tokens": 60}\'\' >> "$PLANRUNNER_USAGE"; echo . >> ran\''


def unbounded(tasks: str) -> str:
    head = "plan: p\nbudgets: {cost: $0.50, tokens: 100}\ndefaults: {timeout: 1m}\ntasks:\n"
    return head + tasks.replace("SPEND", SPEND) + "finally: [{id: last, run: echo over}]\n"


@pytest.mark.parametrize("tasks", [LOOP, ITEMS, ROW, SUBPLANS], ids=["loop", "items", "row", "subplans"])
def test_scripts_that_set_nothing_aside_do_not_start_once_a_limit_is_reached(
    tmp_path: Path, run: Callable[..., Ran], tasks: str
) -> None:
    write(tmp_path, unbounded(tasks))
    assert "PLAN511" in run("lint", "p.yaml").out
    done = run("exec", "p.yaml", "--json")
    assert (done.code, done.data["status"], done.data["reason"]) == (6, "failed", "budget")
    assert done.data["budget"]["tokens"] == {"used": 120, "reserved": 0, "limit": 100}
    assert (tmp_path / "ran").read_text() == ".\n.\n"
    assert done.data["tasks"]["last"]["status"] == "completed"
    assert run("retry", "last").code == 6
    assert run("budget", "last", "--add", "tokens=100", "--add", "cost=$1").code == 0
    assert run("retry", "last").code == 6
    assert (tmp_path / "ran").read_text() == ".\n" * 4


def test_a_script_that_declares_to_spend_nothing_starts_after_the_limit(
    tmp_path: Path, run: Callable[..., Ran]
) -> None:
    nothing = "  - {id: free, needs: [l], join: always, run: echo free, budgets: {cost: $0, tokens: 0}}\n"
    write(tmp_path, unbounded("  - {id: l, run: SPEND}\n" + nothing).replace("100", "60"))
    done = run("exec", "p.yaml", "--json")
    assert (done.code, done.data["tasks"]["free"]["status"]) == (0, "completed")


def test_a_line_that_is_not_an_amount_fails_the_task_and_is_shown(tmp_path: Path, run: Callable[..., Ran]) -> None:
    write(tmp_path, 'plan: p\ntasks:\n  - {id: a, timeout: 1m, run: \'echo "cost=$0.20" >> "$PLANRUNNER_USAGE"\'}\n')
    done = run("exec", "p.yaml", "--json")
    assert done.code == 1
    assert "line 1 of the usage file is `cost=sh.20`, which is not an amount" in done.data["tasks"]["a"]["detail"]
