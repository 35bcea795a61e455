"""Votes that meet: one decision each. ``PLANRUNNER_RACES`` sets how many (1000 for the full figure)."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.history.show import look
from planrunner.app.people.gates import decide
from planrunner.app.runs.execute import ExecRequest, execute
from planrunner.errors import PlanrunnerError
from planrunner.machine.events import GateVoted
from planrunner.machine.requests import Vote

RACES = int(os.environ.get("PLANRUNNER_RACES", "25"))
VOTERS = 4

PLAN = """
plan: race
tasks:
  - {id: sign, gate: approval, ask: Go on}
  - {id: after, needs: [sign], uses: noop}
"""


class Quiet:
    """Nobody looks on."""

    def started(self, *_: Any) -> None: ...
    def event(self, *_: Any) -> None: ...
    def output(self, *_: Any) -> None: ...
    def tick(self, *_: Any) -> None: ...
    def ended(self, *_: Any) -> None: ...


def _voter(number: int, state: str, runs: list[str], start: Barrier, results: Any) -> None:
    """One of several processes: votes on each run at the same time as the others."""
    verdict = "approve" if number % 2 else "reject"
    for run in runs:
        start.wait(timeout=240)
        try:
            (voted,) = decide(run, Vote("sign", verdict, by=f"v{number}", reason="r"), state)
            results.put((run, number, voted.steered.answer.applied, voted.steered.answer.message))
        except PlanrunnerError as error:
            results.put((run, number, False, error.message))


@pytest.mark.limit(300 + RACES * 2)
def test_approvals_and_rejections_that_meet_give_one_decision_each(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    state = str(tmp_path / "state")
    (tmp_path / "p.yaml").write_text(PLAN)
    runs = [execute(ExecRequest("p.yaml", state=state), Quiet()).run_id for _ in range(RACES)]
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(VOTERS), context.Queue()
    voters = [context.Process(target=_voter, args=(number, state, runs, start, results)) for number in range(VOTERS)]
    for process in voters:
        process.start()
    answers = [results.get(timeout=240 + RACES * 2) for _ in range(RACES * VOTERS)]
    for process in voters:
        process.join(timeout=240)
        assert process.exitcode == 0
    applied = Counter(run for run, _, was, _ in answers if was)
    assert applied == dict.fromkeys(runs, 1), [answer for answer in answers if applied[answer[0]] != 1]
    for run in runs:
        found = look(run, state)
        votes = [entry.event for entry in found.entries if isinstance(entry.event, GateVoted)]
        (winner,) = (f"v{number}" for other, number, was, _ in answers if other == run and was)
        assert [event.by for event in votes] == [winner]
        gate = found.state.tasks[0].gate
        assert gate is not None
        assert gate.verdict == ("approved" if int(winner[1:]) % 2 else "rejected")


def test_commands_that_meet_give_one_decision(project: Any) -> None:
    project.plan(PLAN)
    assert project("exec", "p.yaml").code == 8
    calls = [["approve", "last", "sign"], ["reject", "last", "sign", "--reason", "no"]] * 2
    processes = [project.start(*call, USER=f"u{number}") for number, call in enumerate(calls)]
    for process in processes:
        process.communicate(timeout=240)
    codes = [process.returncode for process in processes]
    assert sorted(codes) == [0, 2, 2, 2]
    decided = project("resume", "last").code
    assert decided == (0 if codes.index(0) % 2 == 0 else 7)
    assert len(project.events("gate_voted")) == len(project.events("gate_decided")) == 1
