"""``show RUN TASK --inputs``: what attempts were called with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

PLAN = """plan: p
params: {word: it's}
defaults: {timeout: 1m}
tasks:
  - {id: first, uses: noop, with: {value: [1, "{{ params.word }}"]}}
  - id: second
    needs: [first]
    input: {topic: "{{ tasks.first.outputs.value[1] }}"}
    retry: {attempts: 2, delay: 1ms}
    run: echo "$TOPIC {{ params.word }}"; exit 1
  - {id: words, command: look at it}
"""


def calls(run: Callable[..., Any], task: str) -> list[dict[str, Any]]:
    shown = run("show", "last", task, "--inputs", "--json")
    assert shown.code == 0, shown.err
    return list(json.loads(shown.out)["calls"])


def test_every_attempt_shows_the_call_that_was_recorded(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    run("exec", plan(PLAN))
    [first] = calls(run, "first")
    assert first["call"]["with"] == {"value": [1, "it's"]} and first["same"] is True
    attempts = calls(run, "second")
    assert [each["attempt"] for each in attempts] == [1, 2]
    for each in attempts:
        assert each["call"]["env"] == {"TOPIC": "it's"} and list(each["call"]["values"].values()) == ["it's"]
        assert each["same"] is True and len(each["recorded"]) == 32
    text = run("show", "last", "second", "--inputs").out
    assert 'env     {"TOPIC":"it\'s"}' in text and "attempt 2" in text


def test_the_call_is_that_of_its_own_time(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    text = PLAN.replace("; exit 1", "").replace("  - {id: words, command: look at it}\n", "")
    run("exec", plan(text))
    assert run("rerun", "last", "first").code == 0
    assert [each["same"] for each in calls(run, "second")] == [True] * len(calls(run, "second"))


def test_what_has_no_call_says_so(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    run("exec", plan(PLAN))
    for arguments, code, said in (
        (("last", "words", "--inputs"), 3, "`words` has not begun"),
        (("last", "secnd", "--inputs"), 3, "did you mean `second`"),
        (("last", "--inputs"), 2, "--inputs needs the task"),
        (("last", "second", "--timeline"), 2, "leave the task out"),
    ):
        shown = run("show", *arguments)
        assert (shown.code, said in shown.err) == (code, True), shown.err


def test_the_artifacts_of_a_plan_are_those_that_its_tasks_kept(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = """plan: p
artifacts: [{name: notes, from: write}, {name: log, from: both.log}, {name: gone, from: fails}]
on_failure: continue
defaults: {timeout: 1m}
tasks:
  - {id: write, run: echo one > n.txt, artifacts: [{name: text, path: n.txt}]}
  - {id: both, run: "echo a > a.log; echo b > b.txt", artifacts: [{name: log, path: a.log}, {name: b, path: b.txt}]}
  - {id: fails, run: exit 1, artifacts: [{name: gone, path: g.txt}]}
"""
    ended = json.loads(run("exec", plan(text), "--json").out)
    notes, log, gone = ended["artifacts"]
    assert (notes["name"], notes["path"], notes["size"], len(notes["sha256"])) == ("notes", "n.txt", 4, 64)
    assert (log["name"], log["path"]) == ("log", "a.log")
    assert gone == {"name": "gone", "from": "fails"}


def test_a_task_is_shown_with_why_what_it_gave_and_what_it_printed(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    text = """plan: p
defaults: {timeout: 1m}
tasks:
  - {id: gives, run: 'echo word; echo n=3 >> "$PLANRUNNER_OUTPUT"', outputs: {n: int}}
  - {id: each, foreach: [a, b], needs: [gives], run: 'echo {{ item }}'}
"""
    run("exec", plan(text))
    shown = run("show", "last", "gives")
    assert shown.code == 0, shown.err
    assert "`gives` completed" in shown.out
    assert "\n  n = 3\n" in shown.out
    assert "\n  | word\n" in shown.out
    assert "| b" in run("show", "last", "each[1]").out
    assert run("show", "last", "each").code == 0
    data = run("show", "last", "gives", "--json").data
    assert (data["task"], data["status"], data["outputs"]) == ("gives", "completed", {"n": 3})
    assert run("show", "last", "given").code == 3
