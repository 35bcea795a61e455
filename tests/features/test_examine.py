"""The examination itself: a sound run passes, and what is falsified on one surface is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from features.doors import call
from features.examine import examine
from planrunner.app.follow import summaries
from planrunner.app.people import gates
from planrunner.views import run as run_view
from planrunner.views import status

pytestmark = pytest.mark.slow

PLAN = """
plan: p
on_failure: continue
defaults: {timeout: 1m}
budgets: {cost: $1}
tasks:
  - {id: paid, run: 'echo cost=0.5 >> "$PLANRUNNER_USAGE"', budgets: {cost: $0.6}}
  - id: fan
    foreach: [1, 2]
    subplan:
      - {id: x, run: 'test {{ item }} = 1', retry: {attempts: 2, delay: 0s}}
      - {id: g, needs: [x], ask: 'so?'}
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory, _data_home: str) -> tuple[Path, str]:
    """A project with a run that waits at a gate, and the run."""
    folder = tmp_path_factory.mktemp("examined")
    (folder / "p.yaml").write_text(PLAN)
    assert call(folder, "exec", "p.yaml", "--progress", "quiet").code == 8
    return folder, str(json.loads(call(folder, "show", "--json").out)["run_id"])


def test_a_sound_run_passes(waiting: tuple[Path, str]) -> None:
    assert examine(*waiting) == []


def test_a_run_that_was_forked_began_at_the_fork_and_a_revised_one_names_its_first_plan(tmp_path: Path) -> None:
    plan = "plan: p\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: echo a}, {id: b, needs: [a], run: test -e go}]\n"
    (tmp_path / "p.yaml").write_text(plan)
    assert call(tmp_path, "exec", "p.yaml", "--progress", "quiet").code == 1
    parent = json.loads(call(tmp_path, "show", "--json").out)
    assert call(tmp_path, "fork", parent["run_id"], "--from", "a").code == 0
    (tmp_path / "p.yaml").write_text(plan.replace("test -e go", "echo b"))
    assert call(tmp_path, "revise", "last", "p.yaml").code == 0
    assert call(tmp_path, "resume", "last").code == 0
    run = json.loads(call(tmp_path, "show", "last", "--json").out)
    assert (run["revision_number"], run["started"] >= parent["ended"]) == (2, True)
    assert run["tasks"]["a"]["started"] < run["started"]
    assert "a" in call(tmp_path, "show", "last", "--timeline").out
    assert examine(tmp_path, run["run_id"], acts=False) == []


def _other_status(task: Any) -> Any:
    return {**task, "status": "skipped"} if task["status"] == "failed" else task


def _attempts(task: Any) -> Any:
    return {**task, "attempts": task["attempts"] + 1}


@pytest.mark.parametrize(
    "change, told", [(_other_status, "skipped, failed by the journal"), (_attempts, "attempts of")]
)
def test_a_figure_that_the_rows_contradict_is_found(
    waiting: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any], told: str
) -> None:
    kept = run_view.task_object
    monkeypatch.setattr(run_view, "task_object", lambda *given: change(kept(*given)))
    assert any(told in text for text in examine(*waiting, acts=False))


def test_a_question_that_is_not_listed_is_found(waiting: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "questions", lambda *given: [])
    assert any("is open by the journal and not in `gates" in text for text in examine(*waiting, acts=False))


def test_a_sum_that_is_not_that_of_the_rows_is_found(
    waiting: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = run_view.budget_object
    monkeypatch.setattr(run_view, "budget_object", lambda *given: {**kept(*given), "cost": {"used": 0.1, "limit": 1.0}})
    assert any("cost used is 0.1, 0.5 by the journal" in text for text in examine(*waiting, acts=False))


def test_a_surface_that_breaks_is_found(waiting: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_FIRST", ())
    assert any("`graph --run" in text and "internal error" in text for text in examine(*waiting, acts=False))


def test_a_list_that_tells_otherwise_is_found(waiting: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "_stopped_by", lambda event: ("paused", "cut off"))
    monkeypatch.setattr(summaries, "ANSWERS", ())
    assert any("`runs --json`: status" in text for text in examine(*waiting, acts=False))
