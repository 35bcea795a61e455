"""planrunner from Python: what its functions give, and what they raise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planrunner.embed import Finding, Run, lint, load, look, run
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.machine.events import Entry

PLAN = """\
plan: small
title: A small plan
params:
  word: {type: string, default: hello}
  count: {type: int}
defaults: {timeout: 1m}
tasks:
  - id: say
    run: echo "{{ params.word }} {{ params.count }}"
    stdout: text
  - id: after
    needs: [say]
    run: exit "{{ params.count }}"
"""
GATE = "plan: gate\ntasks:\n  - {id: ask, gate: approval, ask: Release it now}\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one plan, which is the working directory."""
    (tmp_path / ".planrunner").mkdir(mode=0o700)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/small.yaml").write_text(PLAN)
    monkeypatch.delenv("PLANRUNNER_STATE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_is_loaded_by_path_and_by_name() -> None:
    plan = load("plans/small.yaml")
    assert (plan.name, plan.title, plan.tasks) == ("small", "A small plan", ("say", "after"))
    assert plan.params == {"word": "hello", "count": None}
    assert load("small") == plan
    assert load(Path("plans/small.yaml")) == plan


def test_a_plan_with_errors_is_not_loaded(project: Path) -> None:
    (project / "broken.yaml").write_text("plan: broken\ntasks:\n  - {id: a, needs: [b], run: x, timeout: 1m}\n")
    with pytest.raises(PlanInvalid) as raised:
        load("broken.yaml")
    assert [finding.code for finding in raised.value.findings] == ["PLAN101"]
    (finding,) = [each for each in lint("broken.yaml") if each.severity == "error"]
    assert isinstance(finding, Finding)
    assert str(finding).startswith("broken.yaml:3:21: error[PLAN101] ")
    with pytest.raises(NotFound):
        load("missing.yaml")


def test_a_folder_stands_for_its_plans() -> None:
    assert [finding for finding in lint("plans") if finding.severity == "error"] == []


def test_a_run_gives_its_tasks_and_is_in_the_journal() -> None:
    seen: list[Entry] = []
    ended = run("small", {"count": 0}, on_event=seen.append)
    assert (ended.ok, ended.status, ended.exit_code, ended.plan) == (True, "completed", 0, "small")
    assert [(task.name, task.status, task.attempts) for task in ended.tasks.values()] == [
        ("say", "completed", 1),
        ("after", "completed", 1),
    ]
    assert ended.tasks["say"].outputs == {"value": "hello 0"} or "hello 0" in json.dumps(ended.data)
    assert [entry.seq for entry in seen] == list(range(1, len(seen) + 1))
    assert look() == look(ended.id) == ended


def test_a_run_that_failed_is_a_result() -> None:
    ended = run("small", {"count": 3, "word": "bye"})
    assert (ended.ok, ended.status, ended.exit_code) == (False, "failed", 1)
    assert ended.tasks["after"].failure == "logic"
    assert ended.data["params"] == {"word": "bye", "count": 3}


def test_tasks_can_be_chosen_and_state_can_lie_elsewhere(tmp_path: Path) -> None:
    ended = run("small", {"count": 0}, until=["say"], state=tmp_path / "state")
    assert ended.tasks["say"].status == "completed"
    assert ended.tasks["after"].status != "completed"
    assert look(state=tmp_path / "state").id == ended.id
    with pytest.raises(NotFound):
        look()


def test_a_gate_ends_the_call_and_waits(project: Path) -> None:
    (project / "gate.yaml").write_text(GATE)
    ended = run("gate.yaml")
    assert (ended.status, ended.exit_code, ended.tasks["ask"].status) == ("blocked", 8, "blocked")


def test_what_does_not_fit_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError):
        run("small", {"count": 0, "other": 1})
    with pytest.raises(UsageError):
        run("small")
    with pytest.raises(NotFound):
        look()


def test_a_run_is_a_value() -> None:
    ended = run("small", {"count": 0})
    assert isinstance(ended, Run)
    assert json.loads(json.dumps(dict(ended.data), default=str))["run_id"] == ended.id
