"""`runs prune` removes what has ended, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PLAN = "plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: echo hello}\n"
GATE = "plan: g\ntasks:\n  - {id: ask, gate: approval, ask: 'go on'}\n"


def runs(run) -> list[str]:
    return [each["run_id"] for each in json.loads(run("runs", "--json").out)["runs"]]


@pytest.fixture
def three(run, plan) -> list[str]:
    """The ids of three runs that have ended, the newest first."""
    name = plan(PLAN)
    for _ in range(3):
        assert run("exec", name).code == 0
    return runs(run)


def test_keep_spares_the_newest_and_what_goes_leaves_no_log_and_a_journal_that_verifies(run, three, tmp_path: Path):
    done = run("runs", "prune", "--keep", "1", "--json")
    told = json.loads(done.out)
    assert (done.code, told["pruned"], told["spared"], told["dry_run"]) == (0, three[1:], [], False), done.err
    assert told["events"] > 0
    assert told["freed"] > 0
    assert runs(run) == three[:1]
    assert [path.name for path in (tmp_path / "state/logs").iterdir()] == three[:1]
    verified = run("audit", "verify")
    assert (verified.code, "intact: 1 run, " in verified.out, ", 2 pruned" in verified.out) == (0, True, True)
    assert json.loads(run("audit", "verify", "--json").out)["pruned"] == 2
    assert run("replay", "last").code == 0


def test_a_dry_run_tells_and_removes_nothing(run, three):
    told = json.loads(run("runs", "prune", "--keep", "0", "--dry-run", "--json").out)
    assert (told["pruned"], told["dry_run"]) == (three, True)
    assert runs(run) == three


def test_older_than_spares_what_ended_later(run, three):
    assert run("runs", "prune", "--older-than", "1h").out.startswith("0 runs pruned, 0 events")
    assert runs(run) == three
    assert json.loads(run("runs", "prune", "--older-than", "0s", "--keep", "2", "--json").out)["pruned"] == three[2:]


def test_a_run_that_waits_stays_and_the_command_says_why(run, plan, three):
    assert run("exec", plan(GATE, "g.yaml")).code == 8
    waiting = runs(run)[0]
    done = run("runs", "prune", "--keep", "0")
    assert f"{waiting} stays: it has not ended" in done.out
    assert runs(run) == [waiting]


def test_a_run_stays_while_a_fork_of_it_has_not_ended(run, plan):
    before = "plan: f\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n"
    name = plan(before + "  - {id: ask, needs: [a], gate: approval, ask: 'go on'}\n")
    run("exec", name)
    parent = runs(run)[0]
    assert run("fork", "last").code == 0
    assert run("cancel", parent).code in (0, 1)
    child = runs(run)[0]
    told = json.loads(run("runs", "prune", "--keep", "0", "--json").out)
    assert told["pruned"] == []
    assert {each["run_id"]: each["why"] for each in told["spared"]} == {
        child: "it has not ended",
        parent: "a run that has not ended was forked from it",
    }


def test_an_artifact_that_a_newer_run_kept_too_stays_readable(run, plan, tmp_path: Path):
    name = plan("plan: k\ntasks:\n  - {id: a, run: echo x > out.txt, timeout: 1m, artifacts: [out.txt]}\n")
    run("exec", name)
    run("exec", name)
    assert run("runs", "prune", "--keep", "1").code == 0
    assert run("artifacts", "get", "k/a/out.txt", "-o", "-").out == "x\n"
    assert run("artifacts", "verify").code == 0


def test_prune_without_a_bound_and_options_of_the_other_action_are_refused(run, three):
    wrong = run("runs", "prune")
    assert (wrong.code, "needs --keep N, --older-than TIME, or both" in wrong.err) == (2, True)
    assert run("runs", "prune", "--keep", "1", "--status", "failed").code == 2
    assert run("runs", "--keep", "1").code == 2
    assert runs(run) == three


def test_without_runs_there_is_nothing_to_prune_and_nothing_is_made(run, tmp_path: Path):
    done = run("runs", "prune", "--keep", "1")
    assert (done.code, "there are no runs" in done.err) == (3, True)
    assert not (tmp_path / "state").exists()


def test_what_a_pruning_that_was_cut_off_left_behind_goes_with_the_next(run, three, tmp_path: Path):
    run("runs", "prune", "--keep", "1")
    left = tmp_path / "state/logs" / three[1]
    left.mkdir()
    (left / "a.1.log").write_text("hello\n")
    assert json.loads(run("runs", "prune", "--keep", "1", "--json").out)["freed"] == 6
    assert not left.exists()


def test_artifacts_whose_time_is_not_over_are_named_before_they_go_with_their_run(run, plan):
    tasks = "  - {id: a, run: 'echo x > o.txt; echo y > p.txt', timeout: 1m, artifacts: [o.txt, {path: p.txt, retention: run}]}\n"
    name = plan("plan: k\ntasks:\n" + tasks)
    assert run("exec", name).code == 0
    before = run("runs", "prune", "--keep", "0", "--dry-run")
    assert "with them would go 1 artifact whose retention has not ended: k/a/o.txt@1\n" in before.out
    assert run("runs", "prune", "--keep", "0", "--dry-run", "--json").data["artifacts"] == ["k/a/o.txt@1"]
    assert "with them went 1 artifact" in run("runs", "prune", "--keep", "0").out
