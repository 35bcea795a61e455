"""Critique of work, and looking back on tasks and runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]


def review(approved: bool = True, score: float = 0.5, *findings: tuple[str, str]) -> str:
    """What a reviewer answers."""
    rows = [{"severity": s, "where": "line 1", "what": what, "suggestion": "Change it."} for s, what in findings]
    return json.dumps({"findings": rows, "score": score, "approved": approved})


CRITIQUE = """
plan: look
tasks:
  - id: look
    uses: agent.critique
    with: {rubric: Is it short, text: Some words., fail: false}
"""


def test_a_critique_gives_findings_a_score_and_whether_it_is_approved(make: Make) -> None:
    bench = make([review(True, 0.8, ("low", "two words"))])
    told = bench.run(CRITIQUE)
    outputs = bench.outputs(told, "look")
    assert (outputs["score"], outputs["approved"]) == (0.8, True)
    assert outputs["findings"] == [
        {"severity": "low", "where": "line 1", "what": "two words", "suggestion": "Change it."}
    ]
    asked = bench.model.heard[0]
    assert "Is it short" in asked.last() and "Some words." in asked.last()


def test_work_with_a_high_finding_is_not_approved_whatever_the_model_says(make: Make) -> None:
    bench = make([review(True, 0.9, ("high", "it deletes all"))])
    told = bench.run(CRITIQUE.replace(", fail: false", ""))
    task = told["tasks"]["look"]
    assert (task["status"], task["failure"]) == ("failed", "criterion")
    assert "high: line 1: it deletes all — Change it." in json.dumps(task, ensure_ascii=False)


def test_an_agent_works_until_its_reviewer_approves(make: Make) -> None:
    def script(heard: Heard) -> Json:
        if "You review work" in heard.turns[0][1]:
            return review("better" in heard.last(), 0.5, ("medium", "too vague"))
        return "It is better." if "too vague" in heard.said() else "It is."

    bench = make(script)
    told = bench.run("""
plan: write
tasks:
  - {id: text, agent: coder, prompt: Write., until: {uses: agent.critique, with: {rubric: Is it clear}}}
""")
    assert told["status"] == "completed", told
    assert bench.outputs(told, "text")["text"] == "It is better."


REFLECT = """
plan: work
tasks:
  - {id: build, run: echo building, reflect: true}
  - {id: test, needs: [build], run: exit 3, reflect: {rubric: Why did it fail}}
"""


def test_a_task_is_looked_back_on_when_it_is_over_and_its_outcome_stays(make: Make) -> None:
    bench = make(lambda heard: review(False, 0.1, ("high", "fails" if "Why did" in heard.last() else "slow")))
    told = bench.run(REFLECT)
    assert told["tasks"]["build"]["status"] == "completed"
    assert told["tasks"]["test"]["status"] == told["status"] == "failed"
    assert told["tasks"]["build-reflection"]["status"] == "completed"
    assert bench.outputs(told, "test-reflection")["findings"][0]["what"] == "fails"
    assert any("building" in heard.last() for heard in bench.model.heard)


def test_what_fails_to_look_back_changes_nothing(make: Make) -> None:
    bench = make([{"status": 400}])
    told = bench.run("plan: w\nreflect: true\ntasks:\n  - {id: build, run: echo x, reflect: true}\n")
    assert told["status"] == "completed", told


def test_a_run_is_looked_back_on_at_its_end(make: Make) -> None:
    bench = make([review(False, 0.2, ("medium", "it failed"))])
    told = bench.run("plan: w\nreflect: {rubric: Be strict}\ntasks:\n  - {id: build, run: 'echo broken; exit 3'}\n")
    assert told["status"] == "failed"
    heard = bench.model.heard[0].last()
    assert "Be strict" in heard and '"build"' in heard and "exit code 3" in heard
    assert bench.outputs(told, "reflection")["findings"][0]["what"] == "it failed"


def test_looking_back_can_be_switched_off(make: Make) -> None:
    bench = make([review()])
    told = bench.run("plan: w\nreflect: false\ntasks:\n  - {id: build, run: echo x, reflect: false}\n")
    assert list(told["tasks"]) == ["build"]
    assert bench.model.heard == []


def test_what_is_suggested_is_shown_as_text(make: Make) -> None:
    bench = make([review(False, 0.2, ("medium", "\x1b[31mred {{ env.HOME }}"))])
    bench.run("plan: w\ntasks:\n  - {id: build, run: echo x, reflect: true}\n")
    shown = bench.call("show", "last").stdout
    assert "suggestions of `scripted`, a model:" in shown and "medium: build, line 1: " in shown
    assert "\x1b[31m" not in shown and "{{ env.HOME }}" in shown
    assert "medium: line 1: " in bench.call("why", "last", "build").stdout


def test_a_project_switches_looking_back_on_or_off_for_all_plans(make: Make) -> None:
    bench = make([review()])
    plan = "plan: w\ntasks:\n  - {id: build, run: echo x}\n"
    assert list(bench.run(plan, reflect={"rubric": "Be strict"})["tasks"]) == ["build", "reflection"]
    assert "Be strict" in bench.model.heard[0].last()
    assert list(bench.run(plan.replace("echo x", "echo x, reflect: true"), reflect=False)["tasks"]) == ["build"]


LIMITED = "plan: w\nbudgets: {tokens: 100k}\ndefaults: {timeout: 1m}\ntasks:\n  - {id: build, run: echo x}\n"


def test_a_reflection_that_the_project_asks_for_takes_a_share_of_the_budget(make: Make) -> None:
    bench = make([review()])
    told = bench.run(LIMITED, reflect=True)
    assert (told["status"], told["tasks"]["reflection"]["status"]) == ("completed", "completed")
    assert "no findings" in bench.call("lint", "plan.yaml").stdout
    told = bench.run(LIMITED.replace("100k", "100"), reflect=True)
    assert (told["status"], told["tasks"]["reflection"]["failure"]) == ("completed", "budget")
    assert "raise `reflect: {budgets: {tokens: …}}` or lower" in told["tasks"]["reflection"]["detail"]


def test_a_reflection_has_the_default_budgets_and_names_its_own_where_they_are_too_small(make: Make) -> None:
    bench = make(["nonsense", review()])
    told = bench.run(LIMITED.replace("timeout", "budgets: {tokens: 20k, calls: 1}, timeout"), reflect=True)
    assert told["tasks"]["reflection"]["budget"]["tokens"]["limit"] == 20_000
    assert "set `reflect: {budgets: {calls: 2}}`" in told["tasks"]["reflection"]["detail"]


def test_a_reflection_asks_once_more_after_an_answer_that_cannot_be_read(make: Make) -> None:
    bench = make(["nonsense", review(), "nonsense", review()])
    told = bench.run(LIMITED, reflect=True)
    assert (told["tasks"]["reflection"]["status"], len(bench.model.heard)) == ("completed", 2)
    told = bench.run(LIMITED.replace("tokens: 100k", "calls: 1"), reflect=True)
    assert (told["status"], told["tasks"]["reflection"]["failure"]) == ("completed", "schema")
    assert len(bench.model.heard) == 3
