"""Instructions in plain words: people carry them out and say so, through the real command line."""

from __future__ import annotations

import re
from typing import Any

PLAN = """
plan: words
defaults: {timeout: 2m}
tasks:
  - {id: before, run: "echo n=3 > $PLANRUNNER_OUTPUT"}
  - id: a
    needs: [before]
    command: search for cats and tell me
    KEYS
  - {id: after, needs: [a], run: "echo found {{ tasks.a.outputs.text }}"}
"""


def parked(project: Any, keys: str = "") -> Any:
    project.plan(PLAN.replace("KEYS", keys))
    ran = project("exec", "p.yaml")
    assert ran.code == 8, ran.err
    return ran


def test_an_instruction_waits_at_a_gate_that_says_how_to_answer(project: Any) -> None:
    ran = parked(project)
    assert "search for cats and tell me" in ran.err
    assert re.search(r"planrunner answer \S+ a -f text=… --shown", ran.err)
    listed = project("gates", "last")
    assert "search for cats and tell me" in listed.out
    assert 'before: {"n": "3"}' in listed.out
    shown = project("gates", "last", "--json").data["gates"][0]
    assert (shown["stage"], shown["kind"]) == ("instruction", "instruction")
    assert "search for cats" in project("why", "last", "a").out


def test_who_says_that_it_is_done_lets_the_run_go_on_with_what_they_said(project: Any) -> None:
    parked(project)
    said = project("approve", "last", "a", "--reason", "seven cats")
    assert said.code == 0, said.err
    done = project("resume", "last", "--json")
    assert done.code == 0, done.err
    task = done.data["tasks"]["a"]
    assert task["outputs"]["text"] == "seven cats"
    assert task["outputs"]["by"] == "ana"
    assert done.data["tasks"]["after"]["status"] == "completed"
    assert "done, says ana: seven cats" in project("why", "last", "a").out
    assert project("replay", "last").code == 0


def test_a_text_of_its_own_is_the_output_rather_than_the_reason(project: Any) -> None:
    parked(project)
    assert project("answer", "last", "a", "-f", "text=three tabbies", "--resume").code == 0
    assert "found three tabbies" in project("logs", "last", "after").out


def test_who_says_that_it_failed_fails_the_task(project: Any) -> None:
    parked(project)
    assert project("reject", "last", "a", "--reason", "no cats here").code == 0
    done = project("resume", "last", "--json")
    assert done.code == 1
    assert done.data["tasks"]["a"]["status"] == "failed"
    assert "failed, says ana: no cats here" in project("why", "last", "a").out
    assert project("replay", "last").code == 0


def test_declared_outputs_are_asked_for_and_criteria_hold_for_them(project: Any) -> None:
    parked(project, "outputs: {count: int}\n    expect: [outputs.count > 3]")
    assert "-f count=" in project("gates", "last").out
    refused = project("approve", "last", "a", "--reason", "done")
    assert refused.code != 0
    assert "`count` is required" in refused.err
    assert project("answer", "last", "a", "-f", "count=2").code == 0
    done = project("resume", "last", "--json")
    assert (done.code, done.data["tasks"]["a"]["status"]) == (1, "failed")
    assert "outputs.count > 3" in project("why", "last", "a").out


def test_criteria_in_words_are_asked_for_once_it_is_done(project: Any) -> None:
    parked(project, "expect: [{judge: the cats are real}]")
    assert project("approve", "last", "a", "--reason", "seven").code == 0
    assert project("resume", "last").code == 8
    assert "the cats are real" in project("gates", "last").out
    assert project("approve", "last", "a").code == 0
    done = project("resume", "last", "--json")
    assert (done.code, done.data["tasks"]["a"]["outputs"]["text"]) == (0, "seven")
    assert project("replay", "last").code == 0


ABOUT = """
title: Collect the notes
description: What was written of the outage
owner: ana
risks: [old notes]
assumptions: the pager kept its log
failure_modes: [{name: none, detect: outputs.text is empty, recover: ask the team}]
"""


def test_who_is_asked_reads_what_the_task_says_of_itself(project: Any) -> None:
    keys = "".join(f"    {line}\n" for line in ABOUT.strip().split("\n"))
    project.plan(f"plan: p\ntasks:\n  - id: notes\n    command: read them\n{keys}")
    parked = project("exec", "p.yaml")
    for text in (parked.err, project("gates").out, project("show", "last").out):
        for line in (
            "title: Collect the notes",
            "description: What was written of the outage",
            "owner: ana",
            "risks: old notes",
            "assumptions: the pager kept its log",
            "may fail with none, when outputs.text is empty: ask the team",
        ):
            assert line in text
    [gate] = project("gates", "--json").data["gates"]
    assert gate["about"] == {
        "title": "Collect the notes",
        "description": "What was written of the outage",
        "owner": "ana",
        "assumptions": "the pager kept its log",
        "risks": ["old notes"],
        "failure_modes": [{"name": "none", "detect": "outputs.text is empty", "recover": "ask the team"}],
    }


def test_a_foreseen_failure_tells_what_its_author_advises(project: Any) -> None:
    modes = "failure_modes: [{name: busy, detect: exit_code == 3, recover: wait until the night}]"
    project.plan(f"plan: p\ntasks:\n  - {{id: a, run: exit 3, timeout: 1m, {modes}}}\n")
    ended = project("exec", "p.yaml")
    assert ended.code == 1 and "advice   wait until the night" in ended.err


def test_each_step_in_words_is_a_task_that_asks_by_itself(project: Any) -> None:
    project.plan("plan: p\ntasks:\n  - id: check\n    subplan: [look at the pool, read the slow log]\n")
    assert project("exec", "p.yaml").code == 8
    assert [gate["gate"] for gate in project("gates", "last", "--json").data["gates"]] == ["check/step-1"]
    project("approve", "last", "check/step-1", "--reason", "it is full")
    assert project("resume", "last").code == 8
    [gate] = project("gates", "last", "--json").data["gates"]
    assert gate["gate"] == "check/step-2" and gate["ask"] == "carry this out: read the slow log"
    project("approve", "last", "check/step-2", "--reason", "nothing there")
    ended = project("resume", "last", "--json")
    assert ended.data["tasks"]["check/step-1"]["outputs"]["text"] == "it is full"
    assert ended.data["tasks"]["check"]["status"] == "completed"


def test_who_is_asked_for_the_items_of_a_family_makes_its_tasks(project: Any) -> None:
    project.plan("plan: p\ntasks:\n  - {id: 'dive-*', run: 'echo {{ item }}', timeout: 1m}\n")
    assert project("exec", "p.yaml").code == 8
    asked = project("answer", "last", "dive", "-f", "items=red,blue")
    assert asked.code == 0, asked.err
    ended = project("resume", "last", "--json")
    assert {name: each["status"] for name, each in ended.data["tasks"].items()} == {
        "dive": "completed",
        "dive-*": "completed",
        "dive-1": "completed",
        "dive-2": "completed",
    }


def test_what_a_watchdog_asks_about_is_listed_while_it_runs_and_can_be_ended(project: Any) -> None:
    watch = "watchdog: [{after: 50ms, do: ask}]"
    project.plan(f"plan: p\ntasks:\n  - {{id: slow, uses: sleep, with: {{duration: 1h}}, {watch}}}\n")
    going = project.start("exec", "p.yaml")
    try:
        listed: list[Any] = []
        while not listed and going.poll() is None:
            ran = project("gates", "--json")
            listed = ran.data["gates"] if ran.code == 0 else []
        assert (listed[0]["gate"], listed[0]["stage"], listed[0]["held"]) == ("slow", "watchdog", True)
        text = project("gates").out
        command = re.search(r"planrunner (cancel \S+ --task slow) --reason TEXT", text)
        assert command and "let it continue, or end it?" in text
        assert project(*command[1].split(), "--reason", "too slow").code == 0
    finally:
        _, err = going.communicate(timeout=240)
    assert going.returncode == 1 and "`slow` was cancelled by ana: too slow" in err


def test_the_question_names_the_files_that_are_declared_and_the_answer_waits_for_them(project: Any) -> None:
    ran = parked(project, "outputs: [notes.md]")
    assert "(it is done when notes.md exists)" in ran.err
    refused = project("answer", "last", "a", "-f", "text=done", "--resume")
    assert (refused.code, "`a` is not done: `notes.md` does not exist" in refused.err) == (2, True)
    (project.path / "notes.md").write_text("cats\n")
    assert project("answer", "last", "a", "-f", "text=done", "--resume").code == 0
    assert project("replay", "last").code == 0


def test_who_says_that_it_failed_needs_no_file(project: Any) -> None:
    parked(project, "outputs: [notes.md]")
    assert project("reject", "last", "a", "--reason", "no cats").code == 0
