"""Runs from the outside: exit codes, the JSON object, logs, journal, reasons, resuming."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from workbench import ROOT

PLAN = """\
plan: p
params:
  who: {type: string, default: world}
defaults: {timeout: 10m}
tasks:
  - id: greet
    run: |
      echo "hello {{ params.who }}"
      echo "size=3" >> "$PLANRUNNER_OUTPUT"
    outputs: {size: int}
  - id: after
    run: echo after
    needs: [greet]
outputs:
  size: "{{ tasks.greet.outputs.size }}"
"""
FAILS = """\
plan: p
defaults: {timeout: 10m}
tasks:
  - id: good
    run: echo fine
  - id: bad
    run: |
      echo out
      echo trouble >&2
      exit 3
    needs: [good]
    on_failure: tidy
  - id: next
    run: echo next
    needs: [bad]
  - id: tidy
    run: echo tidied
"""


def test_a_run_that_completes_gives_0_and_one_json_object(run, plan):
    ran = run("exec", plan(PLAN), "--json", "-p", "who=you")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert found["status"] == "completed"
    assert found["exit_code"] == 0
    assert found["tasks"]["greet"]["outputs"] == {"size": 3}
    assert found["outputs"] == {"size": 3}
    assert found["budget"]["attempts"]["used"] == 2
    assert set(found) >= {"run_id", "plan", "revision", "status", "exit_code", "tasks", "budget", "outputs"}


def test_show_prints_the_same_object_as_exec(run, plan):
    executed = json.loads(run("exec", plan(PLAN), "--json").out)
    shown = json.loads(run("show", executed["run_id"], "--json").out)
    assert shown == executed


def test_a_run_that_fails_gives_1_and_ends_with_the_failure(run, plan):
    ran = run("exec", plan(FAILS))
    assert (ran.code, ran.out) == (1, "")
    block = ran.err[ran.err.rindex("✘ bad failed") :]
    assert "trouble" in block
    assert "exit code 3" in block
    assert "tidy completed" in block
    assert "planrunner logs" in block.splitlines()[-2]
    assert "planrunner why" in block.splitlines()[-1]


def test_a_plan_with_errors_gives_5_and_starts_nothing(run, plan):
    ran = run("exec", plan("plan: p\ntasks:\n  - {id: a, runn: echo}\n"))
    assert (ran.code, ran.out) == (5, "")
    assert "error[PLAN003]" in ran.err
    assert json.loads(run("runs", "--json").out)["runs"] == []


def test_a_plan_that_is_not_there_gives_3(run):
    assert run("exec", "nope.yaml").code == 3
    assert run("show").code == 3
    assert run("resume", "last").code == 3


def test_wrong_parameters_give_2_and_task_names_3_with_the_nearest_name(run, plan):
    name = plan(PLAN)
    wrong = run("exec", name, "-p", "woh=x")
    assert wrong.code == 2
    assert "did you mean `who`?" in wrong.err
    assert run("exec", name, "--only", "gret").code == 3
    assert "did you mean `greet`?" in run("exec", name, "--until", "gret").err
    assert run("exec", name, "-p", "who").code == 2


@pytest.mark.parametrize(("file", "text"), [("v.json", '{"who": "json"}'), ("v.yaml", "who: yaml\n")])
def test_parameters_come_from_files_and_options_come_first(run, plan, file, text):
    name = plan(PLAN)
    plan(text, file)
    assert run("exec", name, "--params-file", file).code == 0
    assert run("logs", "last", "greet").out == f"hello {file[2:]}\n"
    assert run("exec", name, "--params-file", file, "-p", "who=option").code == 0
    assert run("logs", "last", "greet").out == "hello option\n"
    assert run("exec", name, "--params-file", "none.yaml").code == 3
    plan("[1, 2]", "list.json")
    assert run("exec", name, "--params-file", "list.json").code == 2
    plan("{", "bad.json")
    assert run("exec", name, "--params-file", "bad.json").code == 5


def test_a_dry_run_acts_on_nothing_and_keeps_nothing(run, plan, tmp_path):
    ran = run("exec", plan("plan: p\ntasks:\n  - {id: a, run: touch made, timeout: 10m}\n"), "--dry-run", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["tasks"]["a"]["status"] == "completed"
    assert not (tmp_path / "made").exists()
    assert json.loads(run("runs", "--json").out)["runs"] == []


def test_only_and_until_choose_tasks(run, plan):
    name = plan(FAILS)
    only = json.loads(run("exec", name, "--only", "good", "--json").out)
    assert only["tasks"]["good"]["status"] == "completed"
    assert only["tasks"]["bad"]["status"] == "skipped"
    until = json.loads(run("exec", name, "--until", "bad", "--json").out)
    assert until["tasks"]["bad"]["status"] == "failed"
    assert until["tasks"]["next"]["status"] == "skipped"


def test_progress_as_json_lines_is_the_journal_and_stays_data(run, plan):
    ran = run("exec", plan(PLAN), "--progress", "jsonl")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert rows[0]["format"] == 1
    assert rows[-1]["type"] == "run_ended"
    journal = [json.loads(line) for line in run("events", "last", "--json").out.splitlines()]
    assert rows == journal
    assert ran.err == ""


def test_quiet_progress_prints_nothing_when_all_is_well(run, plan):
    ran = run("exec", plan(PLAN), "--progress", "quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = run("exec", "p.yaml", PLANRUNNER_PROGRESS="quiet")
    assert (ran.code, ran.err) == (0, "")
    assert run("exec", "p.yaml", PLANRUNNER_PROGRESS="loud").code == 2


def test_github_actions_get_groups_without_being_asked(run, plan):
    assert "::group::output of greet\n" in run("exec", plan(PLAN), GITHUB_ACTIONS="true").err


def test_logs_are_printed_byte_for_byte_by_task_attempt_and_tail(run, plan):
    text = "plan: p\ntasks:\n  - id: a\n    run: 'for i in 1 2 3 4; do echo line $i; done; exit 75'\n    timeout: 10m\n"
    assert run("exec", plan(text + "    retry: {attempts: 2, delay: 0s}\n")).code == 1
    whole = "line 1\nline 2\nline 3\nline 4\n"
    both = run("logs", "last", "a")
    assert both.out == whole * 2
    assert "==> a, attempt 2 <==" in both.err
    one = run("logs", "last", "a", "--attempt", "2")
    assert (one.out, one.err) == (whole, "")
    assert run("logs", "last", "a", "--attempt", "1", "--tail", "2").out == "line 3\nline 4\n"
    assert run("logs", "last", "a", "--attempt", "1", "--tail", "0").out == ""
    assert run("logs", "last", "a", "--attempt", "9").code == 3
    wrong = run("logs", "last", "b")
    assert wrong.code == 3


def test_a_heading_of_the_logs_begins_on_a_line_of_its_own(run, plan):
    text = "plan: p\ntasks:\n  - {id: a, run: printf one, timeout: 10m}\n  - {id: b, run: echo two, needs: [a]}\n"
    assert run("exec", plan(text)).code == 0
    both = run("logs", "last")
    assert both.out == "onetwo\n"
    assert both.err == "==> a, attempt 1 <==\n\n==> b, attempt 1 <==\n"


def test_a_retry_says_that_the_plan_file_was_edited(run, plan):
    text = "plan: p\ntasks:\n  - {id: a, run: test -e ready || { touch ready; exit 1; }, timeout: 10m}\n"
    assert (
        run("exec", plan(text.replace("test -e ready || { touch ready; exit 1; }", "mkdir made && exit 1"))).code == 1
    )
    plan(text)
    assert "p.yaml has changed since run " in run("retry", "last").err


def test_the_list_of_runs_names_them_as_other_commands_do(run, plan):
    assert run("exec", plan(FAILS)).code == 1
    [listed] = json.loads(run("runs", "--json").out)["runs"]
    shown = json.loads(run("show", "--json").out)
    assert listed == {name: shown[name] for name in listed}


def test_the_lists_give_the_reason_of_a_run_that_ended(run, plan):
    name = plan("plan: p\nbudget: {time: 0.1s}\ntasks:\n  - {id: a, run: sleep 60, timeout: 10m}\n")
    assert run("exec", name).code != 0
    assert json.loads(run("show", "--json").out)["reason"] == "budget"
    assert json.loads(run("runs", "--json").out)["runs"][0]["reason"] == "budget"
    assert json.loads(run("runs", "digest", "--json").out)["runs"][0]["reason"] == "budget"
    assert "✘ failed (budget)" in run("runs").out
    assert run("exec", plan(FAILS)).code == 1
    assert "✘ failed  " in run("runs").out


def test_logs_follow_a_run_to_its_end(run, plan, tmp_path):
    name = plan(
        "plan: p\ntasks:\n  - {id: a, run: 'echo one; until [ -e go ]; do sleep 0.02; done; echo two', timeout: 10m}\n"
    )
    going = _start(tmp_path, "exec", name)
    _until(lambda: run("logs", "last", "a").out == "one\n")
    following = _start(tmp_path, "logs", "last", "a", "-f", stdout=subprocess.PIPE)
    assert following.stdout.readline() == b"one\n"
    (tmp_path / "go").touch()
    assert following.communicate(timeout=240)[0] == b"two\n"
    assert going.wait(240) == 0


def test_why_tells_reasons_for_the_last_run_or_a_named_one(run, plan):
    assert run("exec", plan(FAILS)).code == 1
    run_id = json.loads(run("runs", "--json").out)["runs"][0]["run_id"]
    assert "`next` did not run" in run("why", "next").out
    assert run("why", run_id, "next").out == run("why", "next").out
    assert json.loads(run("why", "bad", "--json").out)["status"] == "failed"
    wrong = run("why", "nxt")
    assert wrong.code == 3
    assert "did you mean `next`?" in wrong.err
    assert run("why", "a", "b", "c").code == 2


def test_runs_are_listed_newest_first_and_by_status(run, plan):
    run("exec", plan(PLAN, "one.yaml"))
    run("exec", plan(FAILS, "two.yaml"))
    listed = json.loads(run("runs", "--json").out)["runs"]
    assert [row["status"] for row in listed] == ["failed", "completed"]
    assert [row["status"] for row in json.loads(run("runs", "--json", "--status", "completed").out)["runs"]] == [
        "completed"
    ]
    assert len(json.loads(run("runs", "--json", "--limit", "1").out)["runs"]) == 1
    assert "failed" in run("runs").out.splitlines()[1]
    prefix = listed[0]["run_id"][:-1]
    assert json.loads(run("show", prefix, "--json").out)["run_id"] == listed[0]["run_id"]


def test_show_prints_the_tree_and_the_timeline(run, plan):
    run("exec", plan(FAILS))
    ran = run("show", "--timeline")
    assert ran.code == 0
    assert "✔ good" in ran.out
    assert "█" in ran.out
    assert ran.out.rstrip().splitlines()[-1].strip().startswith("planrunner why")


def test_a_graph_is_coloured_by_a_run(run, plan):
    run("exec", plan(FAILS))
    assert "class n1 failed" in run("graph", "--run", "last", "--format", "mermaid").out
    assert "✘ " in run("graph", "p.yaml", "--run", "last").out


@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "json"])
def test_a_graph_shows_a_run_in_which_people_have_decided_and_nothing_went_on(run, plan, form):
    name = plan("plan: p\ntasks:\n  - {id: a, ask: 'go?'}\n  - {id: b, run: echo b, needs: [a], timeout: 10m}\n")
    assert run("exec", name).code == 8
    assert run("approve", "last", "a").code == 0
    assert json.loads(run("show", "--json").out)["tasks"]["a"]["status"] == "paused"
    assert run("graph", "--run", "last", "--format", form).code == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGQUIT, 131), (signal.SIGHUP, 129)]
)
def test_an_interrupted_run_gives_its_code_and_resumes_to_the_end(run, plan, tmp_path, number, code):
    name = plan(
        "plan: p\ntasks:\n"
        "  - {id: a, run: 'echo a >> order', timeout: 10m}\n"
        "  - {id: b, run: 'echo b >> order; [ -e go ] || sleep 300', needs: [a], timeout: 10m, effect: idempotent}\n"
        "  - {id: c, run: 'echo c >> order', needs: [b], timeout: 10m}\n"
    )
    going = _start(tmp_path, "exec", name)
    _until(lambda: (tmp_path / "order").exists() and "b" in (tmp_path / "order").read_text())
    assert json.loads(run("runs", "--json").out)["runs"][0]["status"] == "running"
    assert json.loads(run("show", "--json").out)["exit_code"] is None
    assert run("resume", "last").code == 9
    going.send_signal(number)
    assert going.wait(240) == code
    assert json.loads(run("show", "--json").out)["exit_code"] == code
    (tmp_path / "go").touch()
    ran = run("resume", "last", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["status"] == "completed"
    assert (tmp_path / "order").read_text().split() == ["a", "b", "b", "c"]
    assert run("resume", "last").code == 2


def test_a_killed_run_is_shown_as_cut_off_and_its_doubt_is_settled_by_hand(run, plan, tmp_path):
    name = plan(
        "plan: p\ntasks:\n"
        "  - {id: pay, run: 'touch paying; sleep 300', timeout: 10m}\n"
        "  - {id: thank, run: 'echo thanks', needs: [pay], timeout: 10m}\n"
    )
    going = _start(tmp_path, "exec", name)
    _until((tmp_path / "paying").exists)
    going.kill()
    going.wait(240)
    row = json.loads(run("runs", "--json").out)["runs"][0]
    assert (row["status"], row["reason"]) == ("paused", "cut off")
    assert json.loads(run("show", "--json").out)["tasks"]["pay"]["status"] == "in_doubt"
    asked = run("resume", "last")
    assert asked.code == 8, asked.err
    assert "--settle pay=completed\n" in asked.err
    assert run("resume", "last", "--settle", "thank=retry").code == 2
    settled = run("resume", "last", "--settle", "pay=completed", "--json")
    assert settled.code == 0, settled.err
    assert json.loads(settled.out)["tasks"]["thank"]["status"] == "completed"


def test_a_time_budget_that_is_used_up_gives_6(run, plan):
    name = plan(
        "plan: p\nbudgets: {time: 300ms}\ntasks:\n  - {id: a, run: sleep 300}\n  - {id: b, run: echo, needs: [a]}\n"
    )
    ran = run("exec", name)
    assert ran.code == 6, ran.err


def test_a_task_that_waits_for_a_person_gives_8(run, plan):
    name = plan("plan: p\ntasks:\n  - {id: a, command: write the report by hand}\n")
    ran = run("exec", name)
    assert ran.code == 8, ran.err
    assert "waits for a" in ran.err


def test_progress_that_nobody_reads_any_more_does_not_end_the_run(plan, tmp_path, run):
    name = plan(
        "plan: p\ntasks:\n  - {id: a, run: 'sleep 0.3', timeout: 10m}\n  - {id: b, run: touch done, needs: [a], timeout: 10m}\n"
    )
    read, write = os.pipe()
    os.close(read)
    going = _start(tmp_path, "exec", name, stderr=write)
    os.close(write)
    assert going.wait(240) == 0
    assert (tmp_path / "done").exists()


def test_a_run_whose_scratch_files_have_no_place_parks_and_begins_its_task_when_it_is_resumed(run, plan, tmp_path):
    first = "touch begun; until [ -e go ]; do sleep 0.01; done; exit 75"
    retry = "effect: idempotent, retry: {attempts: 2, delay: 10ms}, timeout: 10m"
    name = plan(
        f"plan: p\ntasks:\n  - {{id: a, run: 'if [ -e go ]; then echo a >> order; else {first}; fi', {retry}}}\n"
    )
    going = _start(tmp_path, "exec", name, stderr=subprocess.PIPE)
    _until((tmp_path / "begun").exists)
    shutil.rmtree(tmp_path / "state" / "tmp")
    (tmp_path / "state" / "tmp").touch()
    (tmp_path / "go").touch()
    _, said = going.communicate(timeout=240)
    assert going.returncode == 11, said
    assert b"the folder for its scratch files cannot be made: Not a directory" in said
    assert not (tmp_path / "order").exists()
    refused = run("resume", "last")
    assert refused.code == 11 and "is not followed" in refused.err
    (tmp_path / "state" / "tmp").unlink()
    assert run("resume", "last").code == 0
    assert (tmp_path / "order").read_text() == "a\n"


def test_followed_events_end_with_the_run(run, plan, tmp_path):
    name = plan("plan: p\ntasks:\n  - {id: a, run: 'touch begun; sleep 1', timeout: 10m}\n")
    going = _start(tmp_path, "exec", name)
    _until((tmp_path / "begun").exists)
    lines = run("events", "last", "--json", "-f").out.splitlines()
    assert json.loads(lines[-1])["type"] == "run_ended"
    assert going.wait(240) == 0
    assert " task_settled task=a status=completed" in run("events").out


def _start(folder, *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
    environment = {**os.environ, "PLANRUNNER_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "planrunner", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=stderr)


def _until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def test_what_a_failure_gave_is_shown_as_data_and_to_people(run, plan):
    text = (
        "plan: p\ntasks:\n  - id: check\n    uses: validate.json_schema\n    timeout: 10m\n    with: {data: {port: x}, "
    )
    name = plan(text + "schema: {properties: {port: {type: integer}}}}\n")
    ran = run("exec", name, "--json")
    assert ran.code == 1
    given = json.loads(ran.out)["tasks"]["check"]["outputs"]
    assert given["counts"]["error"] == 1
    assert json.loads(run("show", "--json").out)["tasks"]["check"]["outputs"] == given
    shown = run("show").out
    assert "\n  gave     " in shown
    assert 'counts={"total": 1' in shown


ADDRESS = """\
plan: p
params: {db: "postgresql://me:hunter2@h/x"}
defaults: {timeout: 2m}
on_failure: continue
tasks:
  - id: bad
    run: "echo {{ params.db }}; echo https://me:hunter2@h/y >&2; false"
  - id: sign-off
    gate: approval
    ask: Go on with {{ params.db }}?
"""


def test_no_password_of_an_address_stands_on_the_screen(run, plan):
    ran = run("exec", plan(ADDRESS))
    assert ran.code == 8
    for told in (
        ran,
        run("show"),
        run("show", "--all", "--timeline"),
        run("gates"),
        run("why", "last", "sign-off"),
        run("why", "last", "bad"),
        run("events", "last"),
    ):
        assert "hunter2" not in told.out + told.err
    assert "Go on with postgresql://me:***@h/x?" in run("show").out
