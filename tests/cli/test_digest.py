"""`runs digest` sums up what is open and what began or ended lately."""

from __future__ import annotations

import json

GATE = "plan: release\ntasks:\n  - {id: go, gate: approval, ask: 'Release 1.4?'}\n"
BAD = (
    "plan: nightly\ndefaults: {timeout: 1m}\ntasks:\n  - {id: test, run: exit 3}\n  - {id: b, needs: [test], run: ls}\n"
)
GOOD = "plan: hello\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: echo hello}\n"


def test_a_digest_names_blockers_first_then_failures_and_counts_what_completed(run, plan):
    good = plan(GOOD)
    assert [run("exec", good).code for _ in range(2)] == [0, 0]
    assert run("exec", plan(GATE), "--no-wait").code == 8
    assert run("exec", plan(BAD)).code == 1
    lines = run("runs", "digest").out.splitlines()
    assert lines[0].endswith(": 1 blocked, 2 completed, 1 failed")
    assert "release  blocked (waiting): 1 blocked (run " in lines[1]
    assert lines[2].strip().startswith("waits for ")
    assert lines[2].endswith(": go  Release 1.4?")
    assert "nightly  failed: 1 failed, 1 not run (run " in lines[3]
    assert lines[4] == "    failed: test  exit code 3"
    assert lines[5].endswith("completed: hello ×2")
    told = json.loads(run("runs", "digest", "--json").out)
    assert told["totals"] == {"failed": 1, "blocked": 1, "completed": 2}
    (open_,) = (each for each in told["runs"] if each["status"] == "blocked")
    assert [(one["gate"], one["ask"]) for one in open_["blockers"]] == [("go", "Release 1.4?")]


def test_what_is_open_is_told_however_old_and_what_ended_before_the_moment_is_not(run, plan):
    assert run("exec", plan(GOOD)).code == 0
    assert run("exec", plan(GATE), "--no-wait").code == 8
    told = json.loads(run("runs", "digest", "--since", "2100-01-01", "--json").out)
    assert [each["plan"] for each in told["runs"]] == ["release"]


def test_a_place_without_runs_has_an_empty_digest(run):
    done = run("runs", "digest")
    assert (done.code, done.out.endswith(": no runs\n")) == (0, True)
    assert run("runs", "digest", "--keep", "1").code == 2


WEIGHED = """
plan: outage
defaults: {timeout: 1m}
budgets: {attempts: 9}
hypotheses: {race: {statement: Two writers race, prior: 40%}}
tasks:
  - {id: load, run: exit 1, allow_failure: true, evidence: [{hypothesis: race, supports: exit_code == 1}]}
  - {id: go, needs: [load], gate: approval, ask: "Guard it?", approvers: {roles: [lead]}}
  - {id: guard, needs: [go], run: ls}
  - {id: later, needs: [guard], run: ls}
"""


def test_a_run_is_told_of_with_what_was_done_what_is_next_and_what_it_found(run, plan):
    assert run("exec", plan(GOOD)).code == 0
    assert run("exec", plan(WEIGHED), "--no-wait").code == 8
    lines = [line.strip() for line in run("runs", "digest", "last").out.splitlines()]
    assert lines[0].startswith("since ")
    assert len([line for line in lines if "(run " in line]) == 1
    assert any("go  Guard it? (role `lead`, except the person who started the run)" in line for line in lines)
    assert "next: guard" in lines
    assert "spent: 1 of 9 attempts" in lines
    assert "hypotheses: race 76.9% open" in lines
    (told,) = json.loads(run("runs", "digest", "last", "--json").out)["runs"]
    assert (told["next"], told["failures"][0]["task"], told["hypotheses"][0]["confidence"]) == (
        ["guard"],
        "load",
        0.769,
    )


def test_a_completed_run_that_is_named_is_told_of_in_full(run, plan):
    assert run("exec", plan(GOOD)).code == 0
    assert "    done: a" in run("runs", "digest", "last").out.splitlines()
    unknown = run("runs", "digest", "2020")
    assert (unknown.code, "2020" in unknown.err) == (3, True)


UNDONE = """
plan: deploy
defaults: {timeout: 1m}
on_failure: rollback
tasks:
  - {id: a, run: ls, rollback: {run: ls}}
  - id: stage
    needs: [a]
    subplan:
      - {id: push, run: exit 3, rollback: {run: ls}}
"""


def test_a_failure_is_told_once_with_its_cause_also_where_it_was_undone(run, plan):
    assert run("exec", plan(UNDONE)).code == 1
    lines = run("runs", "digest", "last").out.splitlines()
    assert [line for line in lines if line.startswith("    failed:")] == [
        "    failed: stage/push  it had failed, and was undone: exit code 3"
    ]
    assert run("exec", plan(UNDONE.replace("on_failure: rollback", ""))).code == 1
    (told,) = json.loads(run("runs", "digest", "last", "--json").out)["runs"]
    assert told["failures"] == [{"task": "stage/push", "detail": "exit code 3"}]


def test_a_run_that_was_cut_off_runs_nothing_and_waits_only_for_what_a_person_decides(run, plan):
    tasks = "  - {id: deploy, run: 'sleep 1; kill -9 $PPID; sleep 60'}\n  - {id: look, effect: read, run: sleep 60}\n"
    assert run("exec", plan(f"plan: p\ndefaults: {{timeout: 2m}}\ntasks:\n{tasks}")).code == -9
    (told,) = json.loads(run("runs", "digest", "last", "--json").out)["runs"]
    assert told["running"] == []
    assert [(each["gate"], each["ask"]) for each in told["blockers"]] == [
        ("deploy", "`deploy` was interrupted, result unknown: did it succeed?")
    ]
    assert (told["tasks"]["paused"], told["tasks"]["in_doubt"]) == (1, 1)


def test_to_approve_of_a_task_in_doubt_names_the_command_that_settles_it(run, plan):
    tasks = "  - {id: deploy, run: 'sleep 1; kill -9 $PPID; sleep 60'}\n"
    assert run("exec", plan(f"plan: p\ndefaults: {{timeout: 2m}}\ntasks:\n{tasks}")).code == -9
    refused = run("approve", "last", "deploy")
    assert (refused.code, "`deploy` is in doubt" in refused.err) == (2, True)
    assert "--settle deploy=completed" in refused.err
    (asked,) = json.loads(run("show", "last", "--json").out)["gates"]
    assert (asked["gate"], asked["kind"], asked["answers"]) == ("deploy", "doubt", ["completed", "failed", "retry"])
