"""Runs in the process of the test, whose waits for a time are over at once: the time line jumps ahead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from bench import Bench

from planrunner.app.history.state import stored_state
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.engine.live import LiveEffects
from planrunner.errors import PlanInvalid
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Event
from planrunner.machine.state import State
from planrunner.testing.scripted_model import Heard

Json = Any
Kind = TypeVar("Kind", bound=Event)

_wait = LiveEffects.wait


def jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing is under way, the clock of a run goes on to the time that it waits for."""

    def wait(effects: LiveEffects, until: float | None) -> list[Event]:
        if until is not None and not (effects._calls or effects._examined or effects._events):
            effects._clock._zero += max(0.0, until - effects.now())
        return _wait(effects, until)

    monkeypatch.setattr(LiveEffects, "wait", wait)


class Ran:
    """A run as it stands, with its journal."""

    def __init__(self, state: State, entries: list[Entry]) -> None:
        self.state, self.entries = state, entries

    @property
    def status(self) -> str:
        return self.state.status

    def task(self, name: str) -> Any:
        """How a task stands."""
        return self.state.tasks[self.state.index[name]]

    def of(self, kind: type[Kind], task: str = "") -> list[Kind]:
        """The events of a kind, of one task or of all."""
        return [
            entry.event
            for entry in self.entries
            if isinstance(entry.event, kind) and (not task or getattr(entry.event, "task", "") == task)
        ]

    def started(self) -> list[str]:
        """Calls of tools that were begun."""
        return [event.task for event in self.of(AttemptStarted) if "calls[" in event.task]

    def failures(self, task: str) -> list[str]:
        """How the attempts of a task ended; empty texts stand for those that went well."""
        return [event.outcome.failure for event in self.of(AttemptEnded, task)]


def exec_here(bench: Bench, plan: str, monkeypatch: pytest.MonkeyPatch, **sections: Json) -> Ran:
    """Run a plan in the project, here."""
    bench.write(plan, **sections)
    monkeypatch.chdir(bench.folder)
    try:
        execute(ExecRequest("plan.yaml", state=".planrunner", seed=1, vouched=True), Silent())
    except PlanInvalid as error:
        raise AssertionError([finding.message for finding in error.findings]) from None
    ran = last_run(bench.folder)
    assert ran is not None
    return ran


def last_run(folder: Path) -> Ran | None:
    """The newest run of a project."""
    journal = open_journal(str(folder / ".planrunner"))
    try:
        runs = journal.runs()
        return Ran(stored_state(journal, runs[0].run), list(journal.entries(runs[0].run))) if runs else None
    finally:
        journal.close()


def exchanges(heard: Heard) -> Iterator[tuple[list[str], list[str]]]:
    """The calls of each turn of a model, and what answers them in the turns after it, up to the next one: their ids."""
    calls: list[str] | None = None
    answers: list[str] = []
    for turn in heard.body.get("messages") or heard.body["contents"]:
        if turn["role"] in ("assistant", "model"):
            if calls is not None:
                yield calls, answers
            calls, answers = _ids(turn, "calls"), []
        else:
            answers += _ids(turn, "answers")
    if calls is not None:
        yield calls, answers


def _ids(turn: Json, what: str) -> list[str]:
    if "parts" in turn:
        key = "functionCall" if what == "calls" else "functionResponse"
        return [part[key].get("id", "") for part in turn["parts"] if key in part]
    if isinstance(turn.get("content"), list):
        kind, key = ("tool_use", "id") if what == "calls" else ("tool_result", "tool_use_id")
        return [part[key] for part in turn["content"] if part.get("type") == kind]
    if what == "answers":
        return [turn["tool_call_id"]] if turn["role"] == "tool" else []
    return [call["id"] for call in turn.get("tool_calls") or ()]


def every_call_is_answered(bench: Bench) -> None:
    """Each call of each turn has one answer, right after it, under an id that no other call of the turn has."""
    for heard in bench.model.heard:
        for calls, answers in exchanges(heard):
            assert sorted(calls) == sorted(answers), json.dumps(heard.body)[-2000:]
            assert len(set(calls)) == len(calls), calls
