"""Two runs side by side: the first difference, what explains it, and what follows from it."""

from __future__ import annotations

import io
import json

from planrunner.app.history.compare import comparison, is_run, recorded_or_file
from planrunner.app.history.replay import export
from planrunner.app.people.gates import decide
from planrunner.app.runs.execute import Silent
from planrunner.app.runs.resume import resume
from planrunner.machine.requests import Vote
from planrunner.views.compare import comparison_document, comparison_lines
from planrunner.views.terminal import Terminal

RELEASE = """\
plan: release
params:
  version: {type: string, default: 2.3.8}
  broken: {type: bool, default: false}
defaults: {timeout: 1m}
tasks:
  - {id: build, run: "echo {{ params.version }}"}
  - {id: lint, run: "true"}
  - id: deploy
    needs: [build, lint]
    subplan:
      - {id: canary, run: "true"}
      - {id: smoke, needs: [canary], run: "test {{ params.broken }} != true", retry: {attempts: 2, delay: 1ms}}
      - {id: everyone, needs: [smoke], run: "true"}
  - {id: announce, needs: [deploy], run: "true"}
finally:
  - {id: report, run: "true"}
"""


def _lines(compared):
    return "\n".join(comparison_lines(Terminal(io.StringIO()), compared))


def _compared(made, one, other):
    return comparison(recorded_or_file(one, made.state), recorded_or_file(other, made.state))


def test_the_first_difference_is_the_task_that_failed_and_the_others_follow_from_it(made):
    one, other = made.run(RELEASE), made.run(RELEASE, broken=True)
    compared = _compared(made, one, other)
    assert compared.first.task == "deploy/smoke"
    assert compared.first.because[0] == "it reads the parameter broken: false → true"
    assert not compared.others
    assert {pair.task for pair in compared.following("deploy/smoke")} == {"deploy", "deploy/everyone", "announce"}
    assert [pair.task for pair in compared.tasks if not pair.changes] == ["build", "lint", "deploy/canary", "report"]
    text = _lines(compared)
    assert "`deploy/smoke` completed in the first run and failed (exit code 1) in the second." in text
    assert "then announce: completed → not run" in text


def test_two_runs_of_the_same_plan_with_the_same_results_differ_in_nothing_but_times(made):
    compared = _compared(made, made.run(RELEASE), made.run(RELEASE))
    assert compared.same
    assert compared.first is None
    assert "the runs differ in nothing but times" in _lines(compared)


def test_a_call_that_stayed_the_same_and_ended_otherwise_is_blamed_on_the_world_outside(made):
    text = "plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: look, run: test -e there}\n"
    one = made.run(text)
    (made.folder / "there").touch()
    compared = _compared(made, one, made.run(text))
    assert compared.first.task == "look"
    assert "same inputs in both runs: the difference comes from outside the plan" in compared.first.because[0]


def test_a_changed_task_is_told_with_the_keys_that_changed(made):
    text = 'plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: "true"}\n  - {id: b, needs: [a], run: "true"}\n'
    one, other = made.run(text), made.run(text.replace('b, needs: [a], run: "true"', "b, needs: [a], run: exit 3"))
    compared = _compared(made, one, other)
    assert [each.what for each in compared.plan] == ["task b"]
    assert compared.first.because[0] == "the plan differs: task b changed: run"
    assert compared.first.other.exit_code == 3


def test_another_value_is_a_difference_but_a_failure_comes_first(made):
    text = """\
plan: p
params: {value: {type: int, default: 1}}
defaults: {timeout: 1m}
tasks:
  - {id: give, run: "echo '{\\"n\\": {{ params.value }}}' > out.json", outputs: {n: {type: int, path: out.json}}}
  - {id: use, needs: [give], run: "test {{ tasks.give.outputs.n }} = 1"}
"""
    text = text.replace("echo '{\\\"n\\\": {{ params.value }}}' > out.json", "echo {{ params.value }} > out.json")
    compared = _compared(made, made.run(text), made.run(text, value=2))
    assert compared.first.task == "use"
    assert "`give` gave something else" in compared.first.because[-1]
    assert [pair.task for pair in compared.others] == ["give"]
    assert compared.others[0].changes == ("output n: 1 → 2",)


def test_items_of_a_fan_out_are_found_again_by_what_they_are(made):
    text = """\
plan: p
params: {hosts: {type: list, default: [a, b, c]}}
defaults: {timeout: 1m}
tasks:
  - {id: ping, foreach: "{{ params.hosts }}", run: "test {{ item }} != c"}
"""
    one, other = made.run(text), made.run(text, hosts=["b", "c"])
    compared = _compared(made, one, other)
    assert [pair.task for pair in compared.tasks if pair.other is None] == ["ping[0]"]
    assert [pair.task for pair in compared.tasks if pair.changes] == ["ping[0]"]


def test_rounds_that_only_one_run_has_follow_from_the_round_that_asked_for_them(made):
    text = """\
plan: p
params: {rounds: {type: int, default: 1}}
defaults: {timeout: 1m}
tasks:
  - id: polish
    loop:
      max: 5
      until: tasks.draft.ok
      tasks:
        - {id: draft, run: "test {{ loop.round }} -ge {{ params.rounds }}"}
"""
    compared = _compared(made, made.run(text), made.run(text, rounds=3))
    only = {pair.task: pair.follows for pair in compared.tasks if pair.one is None}
    assert set(only) == {"polish#2/draft", "polish#3/draft"}
    assert set(only.values()) == {"polish#1/draft", "polish#2/draft"}
    assert compared.first.task == "polish#1/draft"
    assert not compared.others


def test_the_document_says_the_same_and_names_both_runs(made):
    one, other = made.run(RELEASE), made.run(RELEASE, version="3", broken=True)
    told = json.loads(json.dumps(comparison_document(_compared(made, one, other))))
    assert (told["one"], told["other"], told["first"], told["same"]) == (one, other, "deploy/smoke", False)
    assert told["params"][0] == {"name": "version", "before": "2.3.8", "after": "3"}
    assert {task["task"]: task["follows"] for task in told["tasks"]}["announce"] == "deploy"


def test_a_run_from_a_file_is_compared_with_one_of_the_journal(made):
    one, other = made.run(RELEASE), made.run(RELEASE, broken=True)
    export(one, made.state, "run.jsonl")
    assert is_run("run.jsonl")
    assert _compared(made, "run.jsonl", other).first.task == "deploy/smoke"


def test_what_a_file_or_a_revision_names_is_a_plan(made):
    made.run(RELEASE)
    assert not is_run("p.yaml")
    assert not is_run("last@1")
    assert is_run("last")


GATED = """\
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: ask, gate: approval, ask: "Go?"}
  - {id: publish, needs: [ask], run: "true"}
"""


def _decided(made, verdict):
    run = made.run(GATED)
    decide(run, Vote("ask", verdict, reason="said so"), made.state)
    resume(run, (), made.state, Silent())
    return run


def test_what_people_decided_otherwise_explains_the_first_difference(made):
    compared = _compared(made, _decided(made, "approve"), _decided(made, "reject"))
    assert [pair.task for pair in compared.decisions] == ["ask"]
    assert compared.first.task == "ask"
    assert "people decided otherwise" in compared.first.because[0]
    assert "approved: said so, then" in compared.first.because[0]
    assert [pair.task for pair in compared.following("ask")] == ["publish"]


def test_the_same_decision_of_the_same_person_is_no_difference(made):
    assert _compared(made, _decided(made, "approve"), _decided(made, "approve")).same
