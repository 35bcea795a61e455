"""`queue`, `worker`, `exec --detach` and `trigger` as people and scripts call them."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from workbench import planrunner

from planrunner.app.queue.worker import Worker

QUICK = "plan: quick\nparams: {n: {type: int, default: 0}}\ntasks:\n  - {id: a, uses: noop}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "quick.yaml").write_text(QUICK)
    (tmp_path / "planrunner.yaml").write_text("triggers: {nightly: {plan: plans/quick.yaml, cron: 30 2 * * *}}\n")
    return tmp_path


def test_a_detached_run_is_run_by_a_worker_that_ends_with_the_last_one(project: Path) -> None:
    started = planrunner(project, "exec", "quick", "--detach", "-p", "n=3")
    run = started.stdout.strip()
    assert started.returncode == 0 and f"planrunner show {run}" in started.stderr
    while (queue := json.loads(planrunner(project, "queue", "--json").stdout))["worker"]:
        time.sleep(0.1)
    (item,) = queue["items"]
    assert (item["run"], item["status"], item["params"], item["source"]) == (run, "completed", {"n": "3"}, "cli")
    assert json.loads(planrunner(project, "show", run, "--json").stdout)["status"] == "completed"


def test_the_queue_is_filled_listed_emptied_and_paused(project: Path) -> None:
    assert "nothing was queued yet" in planrunner(project, "queue").stdout
    first, second = (planrunner(project, "queue", "add", "quick").stdout.strip() for _ in range(2))
    listed = planrunner(project, "queue").stdout
    assert "2 waiting" in listed and "1 run before it" in listed and "no worker works off this queue" in listed
    assert planrunner(project, "queue", "cancel", second, "--reason", "not needed").returncode == 0
    assert planrunner(project, "queue", "cancel", second).returncode == 2
    assert planrunner(project, "queue", "pause", "--reason", "repairs").returncode == 0
    assert "repairs" in planrunner(project, "queue").stdout
    assert planrunner(project, "queue", "resume").returncode == 0
    worked = planrunner(project, "worker", "--until-empty")
    assert worked.returncode == 0 and f"run {first} is completed" in worked.stderr
    assert worked.stderr.startswith("this worker runs what is in the queue")
    assert "1 completed, 1 cancelled" in planrunner(project, "queue", "list").stdout


@pytest.mark.parametrize("run", ["", "last"])
def test_every_look_at_a_run_that_has_not_begun_says_so(project: Path, run: str) -> None:
    queued = planrunner(project, "queue", "add", "quick").stdout.strip()
    named = run or queued
    looks = [("why", named, "a"), ("logs", named), ("events", named), ("show", named, "a")]
    looks += [("show", named, "a", "--inputs"), ("events", named, "--json"), *([("why", named)] if not run else [])]
    for words in looks:
        looked = planrunner(project, *words)
        said = looked.stderr + looked.stdout
        assert looked.returncode == 3
        assert f"run {queued} is queued and has not begun" in said
        assert "planrunner queue" in said
    assert "queued, not begun" in planrunner(project, "show", named).stdout
    assert planrunner(project, "queue", "cancel", queued).returncode == 0
    assert f"run {queued} ended in the queue (cancelled)" in planrunner(project, "logs", named).stderr
    assert planrunner(project, "worker", "--until-empty").returncode == 0


def test_a_run_is_taken_out_of_the_queue_by_the_name_of_its_plan(project: Path) -> None:
    first, second = (planrunner(project, "queue", "add", "quick").stdout.strip() for _ in range(2))
    which = planrunner(project, "queue", "cancel", "quick")
    assert which.returncode == 3 and f"`{second}`, `{first}`" in which.stderr
    assert planrunner(project, "queue", "cancel", second).returncode == 0
    assert f"run {first}: cancelled" in planrunner(project, "queue", "cancel", "quick").stderr
    assert planrunner(project, "queue", "cancel", "quick").returncode == 3


def test_a_second_worker_ends_too_once_the_queue_is_empty(project: Path) -> None:
    with Worker(str(project), str(project / ".planrunner")) as first:
        assert first.is_acting
        assert planrunner(project, "worker", "--until-empty").returncode == 0


@pytest.mark.parametrize("words", [("--dry-run",), ("--progress", "plain"), ("--output", "none"), ("--no-wait",)])
def test_what_has_no_effect_on_a_detached_run_is_an_error(project: Path, words: tuple[str, ...]) -> None:
    ran = planrunner(project, "exec", "quick", "--detach", *words)
    assert ran.returncode == 2 and not (project / ".planrunner" / "queue.db").exists()


def test_a_plan_with_faults_is_told_and_not_queued(project: Path) -> None:
    (project / "plans" / "broken.yaml").write_text("plan: broken\ntasks: 3\n")
    assert planrunner(project, "queue", "add", "broken").returncode == 5
    assert planrunner(project, "queue", "cancel", "20260101").returncode == 3


def test_triggers_are_listed_fired_and_paused(project: Path) -> None:
    listed = planrunner(project, "trigger").stdout
    assert "nightly" in listed and "30 2 * * * (UTC)" in listed
    run = planrunner(project, "trigger", "fire", "nightly").stdout.strip()
    assert planrunner(project, "trigger", "pause", "nightly", "--reason", "moving").returncode == 0
    (trigger,) = json.loads(planrunner(project, "trigger", "--json").stdout)["triggers"]
    assert (trigger["last"]["run"], trigger["paused"]["reason"], trigger["open_run"]) == (run, "moving", run)
    assert planrunner(project, "trigger", "resume", "nightly").returncode == 0
    unknown = planrunner(project, "trigger", "fire", "nigthly")
    assert (unknown.returncode, "did you mean `nightly`?" in unknown.stderr) == (3, True)


def test_a_worker_that_is_killed_leaves_a_queue_that_tells_the_truth(project: Path) -> None:
    (project / "plans" / "waits.yaml").write_text(
        "plan: waits\ntasks:\n  - {id: a, run: 'until test -e go; do sleep 0.1; done', timeout: 5m, effect: pure}\n"
    )
    run = planrunner(project, "exec", "waits", "--detach").stdout.strip()

    def item() -> dict[str, str]:
        return json.loads(planrunner(project, "queue", "--json").stdout)["items"][0]

    while item()["status"] != "running":
        time.sleep(0.05)
    worker = json.loads(planrunner(project, "queue", "--json").stdout)["worker"]
    os.kill(int(worker.split()[1]), signal.SIGKILL)
    while item()["status"] == "running":
        time.sleep(0.05)
    assert item()["status"] == "interrupted"
    (project / "go").touch()
    assert planrunner(project, "worker", "--until-empty").returncode == 0
    assert (item()["run"], item()["status"]) == (run, "completed")
