"""A loop whose ``until`` is still false after its last round: it fails, or ends there where the plan says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def document(**loop: Any) -> str:
    body = [{"id": "try", "run": "x", "outputs": {"n": "int"}}]
    tasks: list[dict[str, Any]] = [{"id": "l", "loop": {"max": 2, "tasks": body, **loop}}]
    tasks.append({"id": "after", "needs": ["l"], "run": "echo {{ tasks.l.outputs.rounds }}"})
    return json.dumps({"plan": "p", "defaults": {"timeout": "1h"}, "tasks": tasks})


def run(*numbers: int, bad: bool = False, **loop: Any) -> Rehearsal:
    loaded = load(Source(document(until="tasks.try.outputs.n == 1", **loop), "p.json", "json"), Registry())
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    failure = ("logic", "exit code 1") if bad else ("", "")
    outcomes = {f"l#{at}/try": [Outcome(*failure, exit_code=0, outputs={"n": n})] for at, n in enumerate(numbers, 1)}
    return rehearse(loaded.plan, outcomes)


@pytest.mark.parametrize("bad", [False, True])
def test_a_loop_that_may_end_at_its_bound_completes_and_says_that_it_did_not_get_there(bad: bool) -> None:
    ran = run(0, 0, bad=bad, at_bound="continue")
    loop = ran.state.tasks[0]
    assert (ran.state.status, loop.status) == ("completed", "completed")
    assert loop.detail == "`until: tasks.try.outputs.n == 1` is still false after 2 rounds"
    assert (loop.outputs["rounds"], loop.outputs["reached"]) == (2, False)


def test_one_that_got_there_says_so() -> None:
    loop = run(0, 1, at_bound="continue").state.tasks[0]
    assert (loop.detail, loop.outputs["reached"]) == ("", True)


@pytest.mark.parametrize("keys", [{}, {"at_bound": "fail"}])
def test_any_other_fails_there(keys: dict[str, str]) -> None:
    ran = run(0, 0, **keys)
    assert (ran.state.status, ran.state.tasks[0].failure) == ("failed", "exhausted")


def test_at_bound_of_a_loop_that_asks_nothing_is_a_finding() -> None:
    found = load(Source(document(at_bound="continue"), "p.json", "json"), Registry()).findings
    assert any(each.code == "PLAN004" and each.message.startswith("`at_bound` has no effect") for each in found)
