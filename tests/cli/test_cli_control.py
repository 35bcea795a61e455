"""Runs that are steered from another process, with real processes on both sides."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from workbench import ROOT

from planrunner.journal.sqlite import open_journal

PLAN = """\
plan: p
defaults: {timeout: 10m}
tasks:
  - {id: a, run: 'echo a >> order; until [ -e go ]; do sleep 0.02; done'}
  - {id: b, needs: [a], run: echo b >> order}
finally:
  - {id: tidy, run: echo tidy >> order}
"""
DEAF = """\
plan: p
tasks:
  - id: a
    timeout: 10m
    run: |
      trap '' TERM
      echo a >> order
      sleep 400 & sleep 400
finally:
  - {id: tidy, run: echo tidy >> order, timeout: 10m}
"""
GATE = "plan: p\ntasks:\n  - {id: agree, gate: approval, approvers: [ann]}\n"
TIDY = "finally:\n  - {id: tidy, run: echo tidy >> order, timeout: 10m}\n"


@pytest.fixture
def start(tmp_path):
    """Starts a command in the background; it has begun once ``order`` is there."""
    started = []

    def begin(*words, wait=True):
        environment = {**os.environ, "PLANRUNNER_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, "-m", "planrunner", *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        if wait:
            until(lambda: "a" in order(tmp_path))
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def order(folder):
    path = folder / "order"
    return path.read_text().split() if path.exists() else []


def shown(run):
    return json.loads(run("show", "last", "--json").out)


def stops(run):
    lines = [json.loads(line) for line in run("events", "last", "--json").out.splitlines()]
    return [line for line in lines if line["type"] == "stop_requested"]


def test_a_paused_run_ends_what_runs_and_leaves_with_8(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    paused = run("pause", "last", "--reason", "lunch", "--json", USER="ann")
    assert paused.code == 0, paused.err
    answer = json.loads(paused.out)
    assert answer["applied"] and answer["held"] and answer["message"].startswith("no more tasks start")
    (tmp_path / "go").touch()
    _, told = going.communicate(timeout=240)
    assert going.returncode == 8
    assert "pausing for ann" in told and "(lunch)" in told
    found = shown(run)
    assert (found["status"], found["reason"], found["exit_code"]) == ("paused", "pause", 8)
    assert found["stopped"] == {"reason": "pause", "by": "ann", "comment": "lunch"}
    assert "paused by ann: lunch" in run("show").err + run("show").out
    assert order(tmp_path) == ["a"]
    assert run("resume", "last").code == 0
    assert order(tmp_path) == ["a", "b", "tidy"]


def test_a_resume_takes_a_pause_back_while_it_comes_to_rest(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    assert run("pause", "last").code == 0
    resumed = run("resume", "last", "--json", USER="ann")
    assert resumed.code == 0, resumed.err
    answer = json.loads(resumed.out)
    assert answer["applied"] and answer["held"] and "the pause is withdrawn" in answer["message"]
    (tmp_path / "go").touch()
    _, told = going.communicate(timeout=240)
    assert going.returncode == 0
    assert "pause withdrawn for ann" in told
    assert order(tmp_path) == ["a", "b", "tidy"]
    assert [stop["reason"] for stop in stops(run)] == ["pause", ""]
    assert run("replay", "last").code == 0


def test_a_resume_of_a_run_that_goes_on_or_is_cancelled_is_refused(run, plan, start, tmp_path):
    going = start("exec", plan(DEAF))
    assert run("resume", "last").code == 9
    assert run("cancel", "last").code == 0
    assert run("resume", "last").code in (2, 9)  # it may have ended by now
    going.wait(240)
    assert shown(run)["status"] == "cancelled"


def test_a_cancelled_run_ends_in_order_with_its_finally_and_leaves_with_1(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    assert run("cancel", "last", "--reason", "wrong branch", USER="ann").code == 0
    _, told = going.communicate(timeout=240)
    assert going.returncode == 1
    assert "cancelling for ann" in told
    found = shown(run)
    assert (found["status"], found["exit_code"]) == ("cancelled", 1)
    assert [found["tasks"][task]["status"] for task in ("a", "b", "tidy")] == ["cancelled", "cancelled", "completed"]
    assert order(tmp_path) == ["a", "tidy"]
    assert "the run was cancelled by ann: wrong branch" in run("why", "b").out
    assert "cancelled by ann: wrong branch" in run("show").out
    again = run("cancel", "last")
    assert again.code == 2
    assert "was already cancelled" in again.err


def test_a_cancelled_task_that_ignores_term_is_killed_after_the_grace(run, plan, start, tmp_path):
    going = start("exec", plan(DEAF))
    before = time.monotonic()
    assert run("cancel", "last").code == 0
    assert going.wait(240) == 1
    assert 1.5 < time.monotonic() - before < 300
    assert order(tmp_path) == ["a", "tidy"]


def test_the_kill_switch_waits_for_nothing_and_leaves_finally_out(run, plan, start, tmp_path):
    asked = DEAF.replace("trap ''", "trap 'echo asked >> order'").replace("& sleep 400", "& wait; sleep 400")
    going = start("exec", plan(asked))
    assert run("cancel", "last", "--now").code == 0
    assert going.wait(240) == 1
    assert order(tmp_path) == ["a"], "it is killed without being asked"
    assert (shown(run)["status"], shown(run)["reason"]) == ("cancelled", "killed")


def test_a_run_that_nobody_holds_is_cancelled_by_the_one_who_asks(run, plan, tmp_path):
    assert run("exec", plan(GATE + TIDY)).code == 8
    cancelled = run("cancel", "last", "--reason", "no longer needed", "--json")
    assert cancelled.code == 0, cancelled.err
    assert json.loads(cancelled.out)["ended"] == "cancelled"
    assert shown(run)["tasks"]["agree"]["status"] == "cancelled"
    assert order(tmp_path) == ["tidy"]


def test_a_killed_runner_leaves_a_run_that_can_be_cancelled(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    going.kill()
    going.wait(240)
    cancelled = run("cancel", "last")
    assert cancelled.code == 0, cancelled.err
    found = shown(run)
    assert found["status"] == "cancelled"
    assert "whether attempt 1 took effect is not known" in found["tasks"]["a"]["detail"]
    assert order(tmp_path) == ["a", "tidy"]


def test_a_pause_of_a_run_that_nobody_holds_says_so_and_changes_nothing(run, plan):
    assert run("exec", plan(GATE)).code == 8
    count = len(run("events", "last").out.splitlines())
    paused = run("pause", "last")
    assert paused.code == 0
    assert "the run is already blocked" in paused.err
    assert len(run("events", "last").out.splitlines()) == count
    assert shown(run)["status"] == "blocked"


@pytest.mark.parametrize("command", ["pause", "cancel"])
def test_a_run_that_has_ended_cannot_be_steered(run, plan, command):
    assert run("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 10m}\n")).code == 0
    refused = run(command, "last")
    assert refused.code == 2
    assert "has already completed" in refused.err
    run_id = json.loads(run("runs", "--json").out)["runs"][0]["run_id"]
    assert run(command, run_id.rpartition("-")[0]).code == 2
    assert run(command, "nothing-like-it").code == 3


def test_where_there_are_no_runs_nothing_is_made(run, tmp_path):
    assert run("pause", "last").code == 3
    assert not (tmp_path / "state").exists()


def test_ctrl_c_stops_what_a_pause_let_go_on(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    assert run("pause", "last").code == 0
    going.send_signal(signal.SIGINT)
    assert going.wait(240) == 130
    assert [stop["reason"] for stop in stops(run)] == ["pause", "interrupted"]


def test_ctrl_c_twice_ends_a_cancelled_run_at_once(run, plan, start, tmp_path):
    going = start("exec", plan(DEAF.replace("echo tidy", "trap '' TERM; sleep 400; echo tidy")))
    assert run("cancel", "last").code == 0
    going.send_signal(signal.SIGINT)
    while going.poll() is None:  # two that come before the first is seen are one
        time.sleep(0.2)
        going.send_signal(signal.SIGINT)
    assert "tidy" not in order(tmp_path)


def test_a_holder_that_hangs_is_named_and_answers_once_it_goes_on(run, plan, start, tmp_path):
    from planrunner.app.runs.control import steer
    from planrunner.errors import RunHeld

    going = start("exec", plan(PLAN))
    going.send_signal(signal.SIGSTOP)
    with pytest.raises(RunHeld, match=f"process {going.pid} .* has not answered for 1 seconds") as caught:
        steer("last", "pause", {}, str(tmp_path / "state"), patience=1.0)
    assert "the request stays" in caught.value.hint
    going.send_signal(signal.SIGCONT)
    (tmp_path / "go").touch()
    assert going.wait(240) == 8
    assert len(stops(run)) == 1


def test_requests_of_many_at_once_are_each_answered_once(run, plan, start, tmp_path):
    going = start("exec", plan(PLAN))
    asking = [start("pause", "last", wait=False) for _ in range(6)]
    codes = sorted(process.wait(240) for process in asking)
    (tmp_path / "go").touch()
    assert going.wait(240) == 8
    assert codes == [0, 2, 2, 2, 2, 2]
    assert len(stops(run)) == 1
    journal = open_journal(str(tmp_path / "state"))
    try:
        assert all(journal.answered(number) is not None for number in range(1, 7))
    finally:
        journal.close()


def test_a_run_whose_disk_is_full_says_which_run_goes_on(plan, tmp_path):
    tasks = "".join(f"  - {{id: t{number}, run: 'head -c 9000 /dev/zero | tr \\\\0 x'}}\n" for number in range(60))
    name = plan(f"plan: p\ndefaults: {{timeout: 10m}}\ntasks:\n{tasks}")
    done = subprocess.run(
        [sys.executable, "-m", "planrunner", "exec", name, "--progress", "quiet"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PLANRUNNER_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)),
        timeout=240,
    )
    assert done.returncode == 11, done.stderr
    journal = open_journal(str(tmp_path / "state"), readonly=True)
    try:
        assert f"`planrunner resume {journal.find_run('last')}`" in done.stderr
    finally:
        journal.close()


def test_who_waits_for_a_holder_that_is_silent_is_told_so_and_nothing_more_starts_once_it_wakes(
    run, plan, start, tmp_path
):
    going = start("exec", plan(PLAN))
    going.send_signal(signal.SIGSTOP)
    try:
        asking = start("pause", "last", wait=False)
        told = asking.stderr.readline()
        (tmp_path / "go").touch()
        time.sleep(0.5)  # what runs ends while its runner sleeps
    finally:
        going.send_signal(signal.SIGCONT)
    assert f"is held by process {going.pid} " in told
    assert "has not answered for 2 seconds; the request is stored" in told
    assert asking.wait(240) == 0
    assert going.wait(240) == 8
    assert (tmp_path / "order").read_text() == "a\n"


def test_amounts_of_money_are_quoted_for_a_shell_wherever_a_command_is_shown():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "planrunner" / "cli").glob("*.py")]
    bare = [
        f"{page.name}: {line}" for page in pages for line in page.read_text().splitlines() if "--add cost=$" in line
    ]
    assert len(pages) > 40
    assert not bare
