"""Runs with gates on a virtual clock, and people who vote between the lives of their runners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.engine.answers import answer
from planrunner.engine.effects import Examine
from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.journal.records import Request
from planrunner.machine.events import Entry, Outcome, RunResumed, RunStarted
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.requests import Reply
from planrunner.plan.model import Plan
from simulator.rehearsal import TRAITS
from simulator.runs import PLACE, RUN_ID, START, Disk, Nobody

Evidence = Callable[[Examine], tuple[dict[str, Any], ...]]


class GateRun:
    """One run and all its lives. ``now`` moves only when ``later`` is called or the imagined world takes its time."""

    def __init__(
        self,
        document: Plan,
        outcomes: dict[str, list[Outcome]] | None = None,
        evidence: Evidence = lambda effect: (),
        attended: bool = False,
        **started: Any,
    ) -> None:
        self.plan = document
        self.disk = Disk()
        self.now = START
        self.outcomes = outcomes or {}
        self.evidence = evidence
        self.lives = 0
        started["attended"] = attended
        first = {"params": {}, "traits": TRAITS, "environment": {"user": "ana"}, **started}
        self._drive(RunStarted("sha256:gates", seed=7, **first))

    def _script(self) -> Script:
        return Script(self._outcome, lambda names: {}, evidence=self.evidence)

    def _outcome(self, call: Any) -> Outcome:
        scripted = self.outcomes.get(call.name)
        return scripted[min(call.attempt, len(scripted)) - 1] if scripted else Outcome(duration=1.0, exit_code=0)

    def _drive(self, first: RunStarted | RunResumed) -> None:
        self.lives += 1
        effects = SimulatedEffects(self._script(), self.now)
        state = fold(self.plan, RUN_ID, self.entries)
        driver = Driver(state, self.disk.append, effects, PLACE, Nobody(), len(self.entries))
        driver.record(first)
        driver.run()
        self.state = state
        self.now = effects.now()

    @property
    def entries(self) -> list[Entry]:
        return self.disk.entries

    def later(self, seconds: float) -> GateRun:
        self.now += seconds
        return self

    def resume(self) -> GateRun:
        self._drive(RunResumed(self.lives + 1))
        return self

    def vote(self, gate: str, verdict: str = "approve", by: str = "bo", **body: Any) -> Reply:
        """What somebody else's process does with a parked run."""
        return self.request("vote", {"gate": gate, "verdict": verdict, "by": by, **body}, by)

    def request(self, kind: str, body: dict[str, Any], by: str = "bo") -> Reply:
        """The same for any request."""
        request = Request(kind, body, by)
        found = answer(self.state, request, PLACE, self.now)
        for event in found.events:
            evolve(self.state, event, self.now)
            self.disk.append([Entry(len(self.entries) + 1, self.now, event)])
        return found

    def statuses(self) -> dict[str, str]:
        return {task.id: found.status for task, found in zip(self.state.specs, self.state.tasks, strict=True)}

    def outputs(self, task: str) -> dict[str, Any]:
        return self.state.tasks[self.state.index[task]].outputs

    def shown(self, task: str) -> str:
        gate = self.state.tasks[self.state.index[task]].gate
        assert gate is not None
        return gate.shown
