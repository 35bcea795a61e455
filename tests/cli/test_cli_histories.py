"""Histories are asked for by plan, time, status, task and kind of entry, and come page by page."""

from __future__ import annotations

import json

import pytest

NESTED = """\
plan: build
defaults: {timeout: 1m}
tasks:
  - {id: fan, foreach: [1, 2, 3], as: n, run: 'echo {{ n }}'}
  - {id: fan2, run: echo other}
  - id: inner
    needs: [fan]
    subplan:
      - {id: fan, run: echo deep}
"""
FAILING = "plan: broken\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: exit 1}\n"


def ids(ran) -> list[str]:
    assert ran.code == 0, ran.err
    return [found["run_id"] for found in json.loads(ran.out)["runs"]]


@pytest.fixture
def five(run, plan) -> list[str]:
    """The ids of five runs, the newest first: three of `build`, two of `broken` that failed."""
    for name in ("broken", "build", "broken", "build", "build"):
        run("exec", plan(NESTED if name == "build" else FAILING, f"{name}.yaml"))
    return ids(run("runs", "--json"))


def test_runs_are_found_by_plan_and_status_and_come_in_pages(run, five):
    assert len(five) == 5
    assert ids(run("runs", "--json", "--plan", "build")) == [five[0], five[1], five[3]]
    assert ids(run("runs", "--json", "--status", "failed")) == [five[2], five[4]]
    assert ids(run("runs", "--json", "--plan", "broken", "--status", "completed")) == []
    pages = [ids(run("runs", "--json", "--limit", "2", "--skip", str(skip))) for skip in (0, 2, 4, 6)]
    assert [one for page in pages for one in page] == five
    assert ids(run("runs", "--json", "--plan", "build", "--limit", "1", "--skip", "2")) == [five[3]]


def test_runs_are_found_by_the_time_they_began(run, five):
    assert ids(run("runs", "--json", "--since", "1h")) == five
    assert ids(run("runs", "--json", "--until", "1h")) == []
    assert ids(run("runs", "--json", "--since", "2020-01-01", "--until", "2020-01-02T10:30")) == []
    assert ids(run("runs", "--json", "--since", "2020-01-01T00:00+02:00")) == five


def test_a_time_that_is_none_is_refused_with_examples(run):
    ran = run("runs", "--since", "yesterday")
    assert ran.code == 2
    assert "`yesterday` is not a time" in ran.err
    assert "90m" in ran.err
    assert "Traceback" not in ran.err


def entries(ran) -> list[dict]:
    assert ran.code == 0, ran.err
    _head, *lines = [json.loads(line) for line in ran.out.splitlines()] or [{}]
    return lines


def test_entries_are_found_by_type_and_by_task_with_all_it_holds(run, plan):
    assert run("exec", plan(NESTED)).code == 0
    ended = entries(run("events", "last", "--json", "--type", "attempt_ended"))
    assert {entry["type"] for entry in ended} == {"attempt_ended"}
    fan = entries(run("events", "last", "--json", "--type", "attempt_ended", "--task", "fan"))
    assert {entry["task"] for entry in fan} == {"fan", "fan[0]", "fan[1]", "fan[2]", "inner/fan"}
    assert {entry["task"] for entry in entries(run("events", "last", "--json", "--task", "fan[1]"))} == {"fan[1]"}
    both = entries(run("events", "last", "--json", "--type", "run_started", "--type", "run_ended"))
    assert [entry["type"] for entry in both] == ["run_started", "run_ended"]


def test_entries_come_in_pages_that_together_are_all(run, plan):
    run("exec", plan(NESTED))
    every = [entry["seq"] for entry in entries(run("events", "last", "--json"))]
    pages, after = [], 0
    while page := entries(run("events", "last", "--json", "--after", str(after), "--limit", "7")):
        pages += [entry["seq"] for entry in page]
        after = pages[-1]
    assert pages == every


def test_a_type_or_a_task_that_is_not_there_is_named_with_the_nearest(run, plan):
    run("exec", plan(NESTED))
    ran = run("events", "last", "--type", "attempt_endet")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `attempt_ended`" in ran.err
    assert "did you mean `task_settled`" in run("events", "last", "--type", "TaskSettled").err
    told = run("events", "last", "--type", "task_finishd").err
    assert "did you mean one of `task_delayed`, `task_queued`, `task_settled`?" in told
    assert "`planrunner events last` shows the type of each" in run("events", "last", "--type", "zzz").err
    ran = run("events", "last", "--task", "innner")
    assert ran.code == 3
    assert "did you mean `inner`" in ran.err


def test_the_whole_run_is_exported_or_nothing(run, plan):
    run("exec", plan(NESTED))
    ran = run("events", "last", "--export", "a.jsonl", "--task", "fan")
    assert ran.code == 2
    assert "whole run" in ran.err


@pytest.mark.parametrize("name", ["rubbish.jsonl", "rubbish.txt", "rubbish"])
def test_a_file_that_is_no_history_is_told_as_such_with_what_writes_one(run, plan, tmp_path, name):
    (tmp_path / name).write_bytes(b"\x00\xffrubbish\n")
    for _ in range(2):
        ran = run("replay", name)
        assert (ran.code, ran.out) == (2, "")
        assert f"the history `{name}` cannot be used: it is damaged, or no file that" in ran.err
        assert "`planrunner events RUN --export FILE`" in ran.err
        run("exec", plan(NESTED))
    assert run("replay", "gone.jsonl").code == 3
    assert "`gone.jsonl` cannot be read: No such file" in run("replay", "gone.jsonl").err
    assert "there is no run `zzz`" in run("replay", "zzz").err


def test_an_exported_run_is_replayed_from_a_file_of_any_name(run, plan):
    run("exec", plan(NESTED))
    assert run("events", "last", "--export", "kept.txt").code == 0
    ran = run("replay", "kept.txt")
    assert ran.code == 0, ran.err
