"""``revise`` and ``--plan`` in a real process: a mended plan continues with the run, and finished work is kept."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from workbench import ROOT

RELEASE = """
plan: release
tasks:
  - {id: build, run: 'echo build >> did; echo ok', stdout: text, timeout: 10m}
  - {id: test, needs: [build], run: 'echo test >> did; exit 1', timeout: 10m}
  - {id: deploy, needs: [test], run: 'echo deploy {{ tasks.build.outputs.value }} >> did', timeout: 10m}
"""
MENDED = RELEASE.replace("exit 1", "exit 0")


def did(tmp_path: Path) -> list[str]:
    return (tmp_path / "did").read_text().splitlines()


def statuses(run) -> dict[str, str]:
    return {task: found["status"] for task, found in json.loads(run("show", "last", "--json").out)["tasks"].items()}


def replays(run) -> bool:
    return run("replay", "last").code == 0


def test_a_plan_with_a_failing_task_is_mended_and_finished_and_nothing_runs_twice(run, plan, tmp_path):
    failed = run("exec", plan(RELEASE))
    assert failed.code == 1
    run_id = json.loads(run("show", "last", "--json").out)["run_id"]
    assert f"fix p.yaml, then: planrunner retry {run_id} --plan p.yaml" in failed.err
    plan(MENDED)
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path) == ["build", "test", "test", "deploy ok"]
    shown = json.loads(run("show", "last", "--json").out)
    assert (shown["status"], shown["revision_number"], shown["run_id"]) == ("completed", 2, run_id)
    assert replays(run)
    assert "since revision 2 of the plan" in run("why", "last", "test").out


def test_a_preview_shows_what_changes_and_changes_nothing(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    before = run("events", "last", "--json").out
    plan(MENDED)
    shown = run("revise", "last", "p.yaml", "--preview")
    assert shown.code == 0
    assert "1 task keeps its result: build\n  2 tasks run again: test, deploy" in shown.out
    found = json.loads(run("revise", "last", "p.yaml", "--preview", "--json").out)
    assert (found["kept"], found["again"], found["recorded"]) == (["build"], ["test", "deploy"], False)
    assert run("events", "last", "--json").out == before


def test_a_revision_is_recorded_with_its_reason_and_resume_goes_on_with_it(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED)
    revised = run("revise", "last", "p.yaml", "--reason", "the test was wrong")
    assert revised.code == 0
    assert did(tmp_path) == ["build", "test"]
    assert run("runs").out.count("paused") == 1
    [event] = [json.loads(line) for line in run("events", "last", "--json").out.splitlines() if "run_revised" in line]
    assert event["data"]["reason"] == "the test was wrong" if "data" in event else "the test was wrong" in str(event)
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["build", "test", "test", "deploy ok"]


def test_a_retry_of_a_revised_run_goes_on_with_it(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED)
    assert run("revise", "last", "p.yaml").code == 0
    assert run("retry", "last").code == 0
    assert did(tmp_path) == ["build", "test", "test", "deploy ok"]


def test_the_same_plan_is_no_revision(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan("# a comment\n" + RELEASE)
    told = run("revise", "last", "p.yaml")
    assert told.code == 0
    assert "has this plan already: revision 1 stays" in told.out


def test_a_task_that_is_gone_is_put_away_and_a_rollback_still_undoes_it(run, plan, tmp_path):
    text = """
plan: p
tasks:
  - {id: a, run: 'echo a >> did', rollback: {run: 'echo undo a >> did'}, timeout: 10m}
  - {id: old, needs: [a], run: 'echo old >> did', rollback: {run: 'echo undo old >> did'}, timeout: 10m}
  - {id: bad, needs: [old], run: 'exit 1', timeout: 10m}
"""
    assert run("exec", plan(text)).code == 1
    plan(
        text.replace("echo a >>", "echo a2 >>")
        .replace("echo undo a >>", "echo undo a2 >>")
        .replace(text.splitlines()[4] + "\n", "")
        .replace("needs: [old], run: 'exit 1'", "needs: [a], run: 'true'")
    )
    told = run("revise", "last", "p.yaml")
    assert told.code == 0
    assert "1 task is gone: old" in told.out
    assert "still to be undone by a rollback: old" in told.out
    assert run("resume", "last").code == 0
    assert statuses(run) == {"a": "completed", "bad": "completed"}
    assert run("rollback", "last").code in (0, 1)
    assert did(tmp_path) == ["a", "old", "a2", "undo a2", "undo old", "undo a"]
    assert replays(run)


def test_params_stay_new_ones_have_defaults_and_what_does_not_fit_is_an_error(run, plan, tmp_path):
    text = """
plan: p
params:
  stage: {type: string, default: dev}
tasks:
  - {id: a, run: 'echo a {{ params.stage }} >> did', timeout: 10m}
  - {id: b, needs: [a], run: 'exit 1', timeout: 10m}
"""
    run("exec", plan(text), "-p", "stage=prod")
    mended = text.replace("exit 1", "echo b {{ params.stage }} {{ params.more }} >> did").replace(
        "default: dev}", "default: dev}\n  more: {type: int, default: 3}"
    )
    plan(mended.replace("type: string, default: dev", "type: int, default: 1"))
    wrong = run("revise", "last", "p.yaml")
    assert wrong.code == 2
    assert "parameter `stage` takes" in wrong.err
    plan(mended)
    assert run("resume", "last", "--plan", "p.yaml", "-p", "more=7").code == 0
    assert did(tmp_path) == ["a prod", "b prod 7"]


def test_what_reads_a_parameter_that_changes_runs_again(run, plan, tmp_path):
    text = """
plan: p
params:
  stage: {type: string, default: dev}
tasks:
  - {id: a, run: 'echo a {{ params.stage }} >> did', timeout: 10m}
  - {id: other, run: 'echo other >> did', timeout: 10m}
  - {id: b, needs: [a], run: 'echo b >> did', timeout: 10m}
max_parallel: 1
"""
    run("exec", plan(text))
    assert run("revise", "last", "p.yaml", "-p", "stage=prod").code == 0
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["a dev", "other", "b", "a prod", "b"]


def test_another_plan_is_refused(run, plan):
    run("exec", plan(RELEASE))
    told = run("revise", "last", plan(MENDED.replace("plan: release", "plan: other"), "q.yaml"))
    assert told.code == 2
    assert "`q.yaml` is the plan `other`, and run " in told.err


def test_a_plan_that_cannot_run_is_refused_as_at_exec(run, plan):
    run("exec", plan(RELEASE))
    plan(MENDED.replace("needs: [build]", "needs: [biuld]"))
    told = run("retry", "last", "--plan", "p.yaml")
    assert told.code == 5
    assert "biuld" in told.err


def test_a_plan_from_outside_is_refused_as_at_exec(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    (outside / ".git").mkdir(parents=True)
    (outside / "p.yaml").write_text(MENDED)
    told = run("retry", "last", "--plan", str(outside / "p.yaml"))
    assert told.code == 12
    assert "is not trusted" in told.err
    assert json.loads(run("show", "last", "--json").out)["revision_number"] == 1


def test_a_plan_that_the_policy_denies_is_refused_as_at_exec(run, plan, tmp_path):
    (tmp_path / "planrunner.yaml").write_text("policy: {capabilities: {deny: [http.get]}}\n")
    run("exec", plan(RELEASE))
    plan(MENDED + "  - {id: more, uses: http.get, with: {url: 'https://example.org'}, timeout: 1m}\n")
    told = run("retry", "last", "--plan", "p.yaml")
    assert told.code == 12
    assert json.loads(run("show", "last", "--json").out)["revision_number"] == 1


def test_a_diff_shows_what_two_revisions_do_not_have_in_common(run, plan):
    run("exec", plan(RELEASE))
    plan(
        MENDED.replace(
            "plan: release", "plan: release\nbudgets: {attempts: 20}\nparams: {stage: {type: string}}"
        ).replace("needs: [test], run", "needs: [build], run")
        + "  - {id: tell, needs: [deploy], run: 'true', timeout: 10m}\n"
    )
    assert run("retry", "last", "--plan", "p.yaml", "-p", "stage=dev").code == 0
    shown = run("diff", "last@1", "last@2")
    assert shown.out.splitlines() == [
        "+ budgets",
        "    + attempts: 20",
        "+ param stage",
        "~ task test",
        "    - run: echo test >> did; exit 1",
        "    + run: echo test >> did; exit 0",
        "+ task tell",
        "+ edge build -> deploy",
        "+ edge deploy -> tell",
        "- edge test -> deploy",
    ]
    assert run("diff", "last", "p.yaml").out == "the plans are the same\n"
    told = run("diff", "last@1", "last@3")
    assert (told.code, "has revisions 1 to 2, not `3`" in told.err) == (3, True)


GATED = """
plan: p
budgets: {attempts: 10}
max_parallel: 1
tasks:
  - {id: build, run: 'echo build >> did', timeout: 10m}
  - {id: ok, needs: [build], gate: approval, ask: 'ship it?'}
  - {id: ship, needs: [ok], run: 'echo ship >> did; exit 1', timeout: 10m}
"""


@pytest.fixture
def approved(run, plan):
    assert run("exec", plan(GATED)).code == 8
    assert run("approve", "last", "ok").code == 0
    assert run("resume", "last").code == 1


def test_an_approval_stands_where_nothing_it_was_bound_to_changed(run, plan, tmp_path, approved):
    plan(GATED.replace("id: ship", "id: ship, title: Ship it").replace("max_parallel: 1", "max_parallel: 2"))
    assert run("retry", "last", "--plan", "p.yaml").code == 1
    assert did(tmp_path) == ["build", "ship", "ship"]
    assert replays(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'ship it?'", "'really ship it?'"),
        ("attempts: 10", "attempts: 20"),
        ("budgets: {attempts: 10}", "budgets: {attempts: 10}\npolicy: {capabilities: {deny: ['http.*']}}"),
        ("echo build >> did", "echo build2 >> did"),
        ("echo ship", "echo really; echo ship"),
    ],
    ids=["the gate", "the budgets", "the policy", "what came before", "what comes after"],
)
def test_an_approval_is_asked_again_where_what_it_was_bound_to_changed(run, plan, tmp_path, approved, old, new):
    plan(GATED.replace("exit 1", "true").replace(old, new))
    preview = json.loads(run("revise", "last", "p.yaml", "--preview", "--json").out)
    assert "ok" in preview["asked_again"] + preview["perhaps"]
    assert run("retry", "last", "--plan", "p.yaml").code == 8
    assert did(tmp_path)[-1] != "ship" or len(did(tmp_path)) == 2
    assert run("approve", "last", "ok").code == 0
    assert run("resume", "last").code == 0
    assert did(tmp_path)[-1] == "ship"
    assert replays(run)


def test_an_approval_with_nothing_left_to_run_after_it_is_not_asked_again(run, plan, tmp_path):
    text = "on_failure: continue" + GATED.replace("exit 1", "true") + "  - {id: other, run: 'exit 1', timeout: 10m}\n"
    run("exec", plan(text))
    run("approve", "last", "ok")
    assert run("resume", "last").code == 1
    plan(text.replace("exit 1", "true").replace("attempts: 10", "attempts: 20"))
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path).count("ship") == 1


def test_what_a_waiting_gate_was_told_stands_while_it_and_what_it_releases_stay_as_they_are(run, plan, tmp_path):
    text = GATED.replace("'ship it?'", "'ship it?', approvers: {users: [ana, bob], count: 2}").replace("exit 1", "true")
    assert run("exec", plan(text)).code == 8
    assert run("approve", "last", "ok", USER="ana", LOGNAME="ana").code == 0
    plan(text + "  - {id: side, run: 'echo side >> did', timeout: 10m}\n")
    assert run("resume", "last", "--plan", "p.yaml").code == 8
    assert run("approve", "last", "ok", USER="bob", LOGNAME="bob").code == 0
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["build", "side", "ship"]


def _begun(tmp_path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "planrunner", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _wait_for(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


SLOW = """
plan: p
tasks:
  - {id: a, run: 'echo a >> did', timeout: 10m}
  - {id: b, needs: [a], run: 'touch begun; echo b >> did; test -e go || sleep 600', timeout: 10m}
  - {id: c, needs: [b], run: 'echo c >> did', timeout: 10m}
"""


@pytest.fixture
def killed(tmp_path: Path, plan) -> None:
    """A run whose process was killed while `b` was running."""
    process = _begun(tmp_path, "exec", plan(SLOW))
    _wait_for(tmp_path / "begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "go").touch()


def test_a_revision_is_refused_while_a_task_is_in_doubt_and_taken_with_what_became_of_it(run, plan, tmp_path, killed):
    plan(SLOW.replace("echo c >>", "echo c2 >>"))
    told = run("resume", "last", "--plan", "p.yaml")
    assert told.code == 2
    assert "`b` is in doubt: an attempt was cut off, and whether it took effect is not known" in told.err
    assert "--plan p.yaml --settle b=retry" in told.err
    assert run("revise", "last", "p.yaml", "--preview").code == 2
    assert run("resume", "last", "--plan", "p.yaml", "--settle", "b=completed").code == 0
    assert did(tmp_path) == ["a", "b", "c2"]
    assert replays(run)


def test_a_task_in_doubt_that_is_to_be_retried_runs_as_the_new_plan_defines_it(run, plan, tmp_path, killed):
    plan(SLOW.replace("echo b >>", "echo b2 >>"))
    assert run("resume", "last", "--plan", "p.yaml", "--settle", "b=retry").code == 0
    assert did(tmp_path) == ["a", "b", "b2", "c"]
    assert replays(run)


HELD = {
    "steps": "  - id: h\n    subplan:\n{}",
    "a loop": "  - id: h\n    loop:\n      max: 1\n      tasks:\n{}",
    "items": "  - id: h\n    foreach: [x]\n    subplan:\n{}",
    "none": "{}",
}


@pytest.mark.parametrize("answer", ["retry", "completed", "failed"])
@pytest.mark.parametrize("holder", HELD)
def test_what_became_of_a_task_that_a_revision_takes_away_or_starts_over_is_recorded(
    run, plan, tmp_path, holder, answer
):
    inner = "      - {id: b, run: 'echo b >> did; touch begun; while [ ! -e go ]; do sleep 0.02; done', timeout: 10m}\n"
    inner = inner if holder != "none" else inner[4:]
    inner = inner.replace("      -", "          -") if holder == "a loop" else inner
    text = "plan: p\ntasks:\n" + HELD[holder].format(inner)
    process = _begun(tmp_path, "exec", plan(text))
    _wait_for(tmp_path / "begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "go").touch()
    plan(text.replace("id: b, run: 'echo b", "id: c, run: 'echo c"))
    assert run("resume", "last", "--plan", "p.yaml", "--settle", f"all={answer}").code == 0
    assert did(tmp_path) == ["b", "c"]
    assert '"doubt_settled"' in run("events", "last", "--json").out
    assert replays(run)


def test_a_revised_run_that_is_killed_resumes_under_the_same_revision(run, plan, tmp_path):
    assert run("exec", plan(SLOW.replace("sleep 600", "exit 1"))).code == 1
    (tmp_path / "begun").unlink()
    plan(SLOW.replace("id: b, needs: [a]", "id: b, needs: [a], effect: idempotent"))
    process = _begun(tmp_path, "retry", "last", "--plan", "p.yaml")
    _wait_for(tmp_path / "begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "go").touch()
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["a", "b", "b", "b", "c"]
    assert json.loads(run("show", "last", "--json").out)["revision_number"] == 2
    assert replays(run)


def test_a_run_that_goes_on_elsewhere_is_not_revised_and_the_way_is_named(run, plan, tmp_path):
    process = _begun(tmp_path, "exec", plan(SLOW))
    try:
        _wait_for(tmp_path / "begun")
        told = run("revise", "last", "p.yaml")
        assert told.code == 9
        assert "pause it first: planrunner pause " in told.err
    finally:
        (tmp_path / "go").touch()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


NESTED = """
plan: p
on_failure: continue
tasks:
  - id: fan
    foreach: [x, y]
    subplan:
      - {id: one, run: 'echo {{ item }} one >> did', timeout: 10m}
      - {id: two, needs: [one], run: 'echo {{ item }} two >> did; test {{ item }} = x', timeout: 10m}
      - {id: three, needs: [two], run: 'echo {{ item }} three >> did', timeout: 10m}
  - {id: end, needs: [fan], run: 'echo end >> did', timeout: 10m}
"""


def test_inside_a_container_only_what_changed_and_what_follows_runs_again(run, plan, tmp_path):
    assert run("exec", plan(NESTED)).code == 1
    (tmp_path / "did").write_text("")
    plan(NESTED.replace("two >> did; test {{ item }} = x", "second >> did"))
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert sorted(did(tmp_path)) == ["end", "x second", "x three", "y second", "y three"]
    assert replays(run)


def test_a_container_that_is_unchanged_keeps_its_items_and_tries_the_failed_one_again(run, plan, tmp_path):
    assert run("exec", plan(NESTED)).code == 1
    (tmp_path / "did").write_text("")
    plan(NESTED.replace("echo end", "echo the end").replace("test {{ item }} = x", "test {{ item }} = x"))
    assert run("retry", "last", "--plan", "p.yaml").code == 1
    assert did(tmp_path) == ["y two"]
    assert replays(run)


def test_budgets_of_the_new_revision_hold_and_what_was_spent_stays_spent(run, plan, tmp_path):
    run("exec", plan(RELEASE.replace("plan: release", "plan: release\nbudgets: {attempts: 9}")))
    plan(MENDED.replace("plan: release", "plan: release\nbudgets: {attempts: 3}"))
    assert run("retry", "last", "--plan", "p.yaml").code == 6
    assert did(tmp_path) == ["build", "test", "test"]
    plan(MENDED.replace("plan: release", "plan: release\nbudgets: {attempts: 4}"))
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path) == ["build", "test", "test", "deploy ok"]
    assert replays(run)


def test_a_limit_that_a_revision_brings_counts_what_was_done_before(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED.replace("plan: release", "plan: release\nbudgets: {attempts: 3}"))
    assert run("retry", "last", "--plan", "p.yaml").code == 6
    assert replays(run)


def test_a_fork_with_a_mended_plan_leaves_the_run_it_comes_from_as_it_is(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED)
    first = json.loads(run("show", "last", "--json").out)
    made = run("fork", "last", "--from", "build", "--plan", "p.yaml")
    assert made.code == 0
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["build", "test", "test", "deploy ok"]
    assert json.loads(run("show", first["run_id"], "--json").out) == first
    assert replays(run)


def test_a_run_that_was_revised_twice_replays_also_from_a_file(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED.replace("echo deploy", "exit 1; echo deploy"))
    assert run("retry", "last", "--plan", "p.yaml").code == 1
    plan(MENDED)
    assert run("rerun", "last", "test", "--plan", "p.yaml").code == 0
    assert run("events", "last", "--export", "kept.jsonl").code == 0
    assert run("replay", "kept.jsonl").code == 0
    assert json.loads(run("show", "last", "--json").out)["revision_number"] == 3
    assert [line for line in run("show", "last").out.splitlines() if line.startswith("revision ")][1].startswith(
        "revision 3 by "
    )


def test_the_plan_of_a_revision_that_was_tampered_with_is_found_and_not_acted_on(run, plan, tmp_path):
    data = {"XDG_DATA_HOME": str(tmp_path / "data")}
    run("exec", plan(RELEASE), **data)
    plan(MENDED)
    assert run("revise", "last", "p.yaml", **data).code == 0
    assert run("audit", "verify", **data).code == 0
    with closing(sqlite3.connect(tmp_path / "state" / "journal.db")) as database:
        database.execute("UPDATE plans SET text = text || '# more' WHERE text LIKE '%exit 0%'")
        database.commit()
    told = run("audit", "verify", "last", "--json", **data)
    assert (told.code, [each["kind"] for each in json.loads(told.out)["breaks"]]) == (10, ["plan"])
    assert run("resume", "last", **data).code == 10
    assert did(tmp_path) == ["build", "test"]


def test_an_export_for_an_audit_tells_of_a_revision(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    plan(MENDED)
    run("retry", "last", "--plan", "p.yaml")
    lines = [json.loads(line) for line in run("audit", "export", "last").out.splitlines()]
    assert [line["class"] for line in lines if line.get("kind") == "run_revised"] == ["revision"]


def test_an_edit_of_a_linked_plan_is_a_revision(run, plan, tmp_path):
    part = "plan: part\ntasks:\n  - {id: x, run: echo x >> did, timeout: 10m}\n  - {id: y, needs: [x], run: exit 1, timeout: 10m}\n"
    plan(part, "part.yaml")
    text = (
        "plan: p\ntasks:\n  - {id: a, run: echo a >> did, timeout: 10m}\n  - {id: b, needs: [a], subplan: part.yaml}\n"
    )
    failed = run("exec", plan(text))
    assert "fix part.yaml, then: planrunner retry " in failed.err
    plan(part.replace("exit 1", "echo y >> did"), "part.yaml")
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path) == ["a", "x", "y"]
    assert run("diff", "last@1", "last@2").out.startswith("~ task b/y\n    - run: exit 1\n    + run: echo y >> did\n")
    assert replays(run)


def test_an_approval_inside_a_container_that_opens_again_stands(run, plan, tmp_path):
    text = """
plan: p
tasks:
  - id: s
    subplan:
      - {id: build, run: 'echo build >> did', timeout: 10m}
      - {id: ok, needs: [build], gate: approval, ask: 'ship it?'}
      - {id: ship, needs: [ok], run: 'echo ship >> did', timeout: 10m}
      - {id: other, run: 'test -e shipped; exit 1', timeout: 10m, allow_failure: true}
"""
    assert run("exec", plan(text)).code == 8
    assert run("approve", "last", "s/ok").code == 0
    assert run("resume", "last").code == 0
    plan(text.replace("exit 1", "true"))
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path) == ["build", "ship"]
    assert replays(run)


def test_a_run_of_some_tasks_stays_one_of_them_and_of_what_they_need_now(run, plan, tmp_path):
    assert run("exec", plan(RELEASE), "--until", "test").code == 1
    plan(
        MENDED.replace("needs: [build], run: 'echo test", "needs: [build, more], run: 'echo test")
        + "  - {id: more, run: 'echo more >> did', timeout: 10m}\n  - {id: other, run: 'echo other >> did', timeout: 10m}\n"
    )
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    assert did(tmp_path) == ["build", "test", "more", "test"]
    assert statuses(run)["deploy"] == statuses(run)["other"] == "skipped"
    assert replays(run)


def test_a_paused_run_with_a_waiting_gate_takes_a_new_task_beside_it(run, plan, tmp_path):
    text = GATED.replace("exit 1", "true")
    assert run("exec", plan(text)).code == 8
    plan(text + "  - {id: side, run: 'echo side >> did', timeout: 10m}\n")
    assert run("resume", "last", "--plan", "p.yaml").code == 8
    assert did(tmp_path) == ["build", "side"]
    assert run("approve", "last", "ok").code == 0
    assert run("resume", "last").code == 0
    assert did(tmp_path) == ["build", "side", "ship"]
    assert replays(run)


def test_a_fork_of_a_revised_run_has_the_parameters_of_its_plan(run, plan, tmp_path):
    run("exec", plan(RELEASE))
    mended = MENDED.replace("plan: release", "plan: release\nparams: {stage: {type: string, default: dev}}")
    plan(mended.replace("echo deploy", "echo deploy {{ params.stage }}"))
    assert run("retry", "last", "--plan", "p.yaml").code == 0
    made = run("fork", "last", "--from", "test", "-p", "stage=prod")
    assert (made.code, made.err.count("no parameter")) == (0, 0)
    assert run("resume", "last").code == 0
    assert did(tmp_path)[-1] == "deploy prod ok"
    assert replays(run)


def test_a_variable_that_was_not_set_is_taken_in_without_a_change_of_the_plan(run, plan, tmp_path, monkeypatch):
    plan("plan: p\ntasks: [{id: a, run: 'echo {{ env.STAGE }} >> did', timeout: 10m}]\n")
    assert "`env` has no `STAGE`" in run("exec", "p.yaml").err
    assert run("retry", "last", "--plan", "p.yaml", STAGE="prod").code == 0
    assert did(tmp_path) == ["prod"]
    assert replays(run)


LOOP = """
plan: lp
defaults: {timeout: 1m}
tasks:
  - id: l
    loop: {max: 3, until: tasks.g.outputs.n > 5, tasks: [{id: g, gate: approval, ask: go, form: {n: {type: int, default: 1}}}]}
  - {id: e, needs: [l], run: echo e}
"""


def test_a_loop_under_way_that_changed_is_told_to_start_over(run, plan, tmp_path):
    assert run("exec", plan(LOOP)).code == 8
    plan(LOOP.replace("max: 3", "max: 4"))
    said = run("revise", "last", "p.yaml", "--preview").out
    assert "1 task runs again: l\n" in said
    assert "l starts over: what it holds is cancelled, votes and rounds included" in said
    found = json.loads(run("revise", "last", "p.yaml", "--preview", "--json").out)
    assert (found["stopped"], found["again"], found["perhaps"]) == (["l"], ["l"], [])
    assert run("revise", "last", "p.yaml", "--reason", "longer").code == 0
    assert run("resume", "last").code == 8
    assert "round 1 of 4" in run("show", "last").out
