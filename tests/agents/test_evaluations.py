"""``planrunner eval`` with models: two of different quality, repeats, thresholds, judges, budgets, recorded runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workbench import planrunner

from planrunner.testing.scripted_model import Heard, ScriptedModel

Json = Any

PLAN = """
plan: summary
params: {text: {type: string, required: true}}
defaults: {timeout: 1m}
tasks:
  - id: sum
    uses: llm.complete
    with: {prompt: "Sum up: {{ params.text }}"}
outputs: {summary: "{{ tasks.sum.outputs.text }}"}
"""
LETTER = "The customer wants a refund for order 7."


class Project:
    """A folder with a plan, and three models behind one server: ``large`` is always right, ``small`` every other time,
    ``referee`` judges."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock, self._small = threading.Lock(), 0
        self.model = ScriptedModel(self._reply)
        self.write()
        (folder / "plan.yaml").write_text(PLAN)

    def _reply(self, heard: Heard) -> Json:
        name = heard.body["model"]
        if name == "referee":
            right = "result `summary`:\nA refund" in heard.said()
            verdict = {"criterion": 1, "met": "yes" if right else "no", "reason": "as it says", "quotes": ["refund"]}
            return json.dumps({"verdicts": [verdict]})
        with self._lock:
            self._small += name == "small"
            return "No idea." if name == "small" and self._small % 2 else "A refund for order 7."

    def write(self, **more: Json) -> None:
        address = {
            "provider": "openai-compatible",
            "base_url": f"{self.model.url}/v1",
            "price": {"input": 1, "output": 2},
        }
        models = {name: {**address, "model": name} for name in ("small", "large", "referee")}
        settings = {"network": {"private": ["127.0.0.1"]}, "models": {"default": "small", "judge": "referee", **models}}
        (self.folder / "planrunner.yaml").write_text(json.dumps({**settings, **more}))

    def eval(self, suite: Json, *words: str) -> tuple[int, Json, str]:
        whole = {"eval": "letters", "plan": "plan.yaml", **suite}
        (self.folder / "letters.eval.yaml").write_text(json.dumps(whole))
        ran = planrunner(self.folder, "eval", "--json", *words)
        return ran.returncode, json.loads(ran.stdout) if ran.stdout else None, ran.stderr

    def asked(self, name: str) -> int:
        return sum(heard.body["model"] == name for heard in self.model.heard)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    with made.model:
        yield made


def case(*expect: Json, **more: Json) -> dict[str, Json]:
    return {"id": "letter", "params": {"text": LETTER}, "expect": list(expect), **more}


def test_two_models_are_scored_side_by_side(project: Project) -> None:
    before = sorted(path.name for path in project.folder.iterdir())
    suite = {"models": ["small", "large"], "repeat": 2, "pass": "60%", "cases": [case('"refund" in outputs.summary')]}
    code, told, _ = project.eval(suite)
    small, large = told["suites"][0]["cases"]
    assert code == 1
    assert (small["model"], small["good"], small["passed"]) == ("small", 1, False)
    assert (large["model"], large["good"], large["passed"]) == ("large", 2, True)
    assert large["tokens"] == 120
    assert large["cost"] == pytest.approx(140e-6)
    assert [each["rate"] for each in told["suites"][0]["models"]] == [0.5, 1.0]
    after = sorted(path.name for path in project.folder.iterdir())
    assert after == sorted([*before, "letters.eval.yaml"]), "evaluating leaves nothing in the project"
    lenient, told, _ = project.eval({**suite, "pass": "50%", "models": ["small"]})
    assert (lenient, told["passed"]) == (0, 1)


def test_the_judge_decides_plain_words_with_quotes_whatever_model_is_evaluated(project: Project) -> None:
    code, told, _ = project.eval({"models": ["small", "large"], "cases": [case({"judge": "it names the refund"})]})
    small, large = (each["scores"][0] for each in told["suites"][0]["cases"])
    assert code == 1
    assert large["verdicts"][0]["quotes"] == ["refund"]
    assert large["passed"]
    assert small["misses"][0]["got"] == "no: as it says"
    assert small["misses"][0]["place"].startswith("letters.eval.yaml:1:")
    assert project.asked("referee") == 2
    assert told["suites"][0]["judging"]["tokens"] == 240
    assert told["suites"][0]["used"]["tokens"] == 480


def test_a_judge_that_cannot_be_asked_is_told_and_does_not_pass(project: Project) -> None:
    project.write(models={"default": "small", "small": {"provider": "openai", "model": "x", "key_env": "NOT_SET_HERE"}})
    code, told, _ = project.eval({"plan": "still.yaml", "cases": [case({"judge": "it is good"}, params={})]})
    assert code == 5  # there is no such plan
    (project.folder / "still.yaml").write_text("plan: still\ntasks: [{id: a, uses: noop}]\n")
    code, told, _ = project.eval({"plan": "still.yaml", "cases": [case({"judge": "it is good"}, params={})]})
    assert code == 1
    assert "NOT_SET_HERE" in told["suites"][0]["cases"][0]["scores"][0]["broken"]


def test_budgets_of_an_evaluation_are_never_overshot(project: Project) -> None:
    suite = {
        "repeat": 4,
        "parallel": 2,
        "budgets": {"calls": 2, "cost": "$1"},
        "cases": [case('status == "completed"')],
    }
    code, told, _ = project.eval(suite)
    (found,) = told["suites"][0]["cases"]
    assert code == 6
    assert project.asked("small") == 2
    assert (found["good"], found["passed"], told["undecided"]) == (2, None, 1)
    assert told["suites"][0]["used"]["calls"] == 2
    assert [score["passed"] for score in found["scores"]].count(None) == 2


def test_a_recorded_run_is_scored_without_asking_anything(project: Project) -> None:
    ran = planrunner(project.folder, "exec", "plan.yaml", "-p", f"text={LETTER}", "--json")
    run = json.loads(ran.stdout)["run_id"]
    heard = len(project.model.heard)
    expect = ['outputs.summary == "No idea."', "tokens == 120", "cost < $0.01"]
    code, told, _ = project.eval({"cases": [{"id": "before", "run": run, "expect": expect}]})
    assert (code, told["passed"]) == (0, 1)
    code, told, _ = project.eval(
        {"cases": [case(*expect), case(*expect, id="other", params={"text": "x"})]}, "--recorded", run
    )
    assert [each["id"] for each in told["suites"][0]["cases"]] == ["letter"]
    assert code == 0
    assert len(project.model.heard) == heard
    code, told, _ = project.eval(
        {"models": ["large"], "cases": [case('"refund" in outputs.summary')]}, "--keep", "kept"
    )
    (kept,) = (project.folder / "kept").iterdir()
    code, told, _ = project.eval(
        {"cases": [{"id": "a", "run": f"kept/{kept.name}", "expect": ['"refund" in outputs.summary']}]}
    )
    assert (code, told["passed"]) == (0, 1)


def test_a_model_may_stand_in_for_one_that_tasks_name(project: Project) -> None:
    named = PLAN.replace("with: {", "with: {model: small, ")
    (project.folder / "plan.yaml").write_text(named)
    _, told, _ = project.eval({"models": ["large"], "cases": [case('status == "completed"')]})
    assert told["suites"][0]["notes"] == ["`large` was never asked: no task that ran uses the default model"]
    _, told, _ = project.eval(
        {"models": ["large"], "replaces": "small", "cases": [case('"refund" in outputs.summary')]}
    )
    assert (told["passed"], told["suites"][0]["notes"], project.asked("large")) == (1, [], 1)
