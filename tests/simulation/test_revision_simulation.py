"""Random plans, edited at random in the middle of a run that is killed at any write: what a revision must keep, must
not keep, and that the record of all revisions replays exactly.

The figure at full size: ``PLANRUNNER_REVISIONS=10000`` (50 plans with 200 edits each).
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest
from simulator.plans import fed_plan
from simulator.runs import summary

from planrunner.app.proof.lives import PLACE, RUN_ID, START, Crash, Disk, Nobody
from planrunner.app.proof.promises import check_items
from planrunner.app.runs.revise import _is_doubtful, _refuse_unfit, _under_way
from planrunner.capabilities.contract import Call
from planrunner.engine.effects import StartCall
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.errors import UsageError
from planrunner.jsontext import stable_json
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptStarted,
    DoubtSettled,
    Entry,
    Outcome,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    StopRequested,
    TaskSettled,
    TasksReset,
)
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.names import is_gone, owners
from planrunner.machine.revision import reset_event, stale
from planrunner.machine.rework import Unfit, is_current
from planrunner.machine.state import State
from planrunner.plan.identity import gives_the_same
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

EDITS = int(os.environ.get("PLANRUNNER_REVISIONS", "240"))
PLANS = 50
TRAITS = {"shell": ["unsafe", False, False]}
REGISTRY = Registry()
Json = Any


def loaded(document: Json) -> Plan | None:
    return load(Source(json.dumps(document), "p.json", "json"), REGISTRY).plan


def edited(rng: random.Random, document: Json) -> tuple[Json, Plan | None]:
    """The document after one to three random edits, and the plan; None where it cannot run then."""
    changed = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        _edit(rng, changed)
    return changed, loaded(changed)


def _edit(rng: random.Random, document: Json) -> None:
    level = document["tasks"]
    while True:
        held = [task for task in level if "subplan" in task or "loop" in task]
        if not held or rng.random() < 0.5:
            break
        task = rng.choice(held)
        level = task["subplan"] if isinstance(task.get("subplan"), list) else task.get("loop", {}).get("tasks", level)
        if not isinstance(level, list) or not level:
            return
    task = rng.choice(level)
    how = rng.choice(["mend", "mend", "mend", "remove", "add", "need", "title", "when", "retry"])
    if how == "mend" and "run" in task:
        task["run"] += f" mended{rng.randint(0, 9)}"
    elif how == "remove" and len(level) > 1:
        level.remove(task)
        for other in level:
            if isinstance(other.get("needs"), list):
                other["needs"] = [need for need in other["needs"] if need != task["id"]]
    elif how == "add":
        at = rng.randrange(len(level))
        level.insert(at, {"id": f"new{rng.randint(0, 99)}", "run": "true new", "needs": [task["id"]]})
    elif how == "need" and isinstance(task.get("needs"), list):
        task["needs"] = task["needs"][1:]
    elif how == "title":
        task["title"] = "another title"
    elif how == "when":
        task["when"] = rng.choice(["true", "false"])
    elif how == "retry":
        task["retry"] = {"attempts": 3, "delay": "10ms"}


def text_of(call: Call) -> str:
    return stable_json([call.script, list(call.arguments), dict(call.values), call.inputs])


def outcome_of(seed: int, call: Call) -> Outcome:
    """What a call gives follows from what it is called with alone, so that a run from the start gives the same."""
    rng = random.Random(f"{seed}/{text_of(call)}")
    if ":undo:" in call.key:
        return Outcome(exit_code=0, duration=0.1)
    duration = rng.choice([0.0, 0.1, 1.0, rng.random() * 30])
    if rng.random() < 0.12:
        return Outcome(failure="logic", message="imagined", exit_code=1, duration=duration)
    some = rng.sample(range(4), rng.randint(0, 3))
    return Outcome(outputs={"value": rng.randint(0, 9), "list": some}, exit_code=0, duration=duration)


class Acted(NamedTuple):
    task: str
    attempt: int
    text: str
    undo: bool


class Effects(SimulatedEffects):
    __slots__ = ("acted", "stop_at", "waits")

    def __init__(self, seed: int, start: float, acted: list[Acted], stop_at: int) -> None:
        script = Script(lambda call: outcome_of(seed, call), lambda names: dict.fromkeys(names, 1))
        super().__init__(script, start)
        self.acted, self.stop_at, self.waits = acted, stop_at, 0

    def wait(self, until: float | None) -> list[Any]:
        self.waits += 1
        if self.waits == self.stop_at:
            return [StopRequested("interrupted")]
        return super().wait(until)

    def start(self, effects: Any) -> None:
        calls = [effect.call for effect in effects if isinstance(effect, StartCall)]
        self.acted += [Acted(c.name, c.attempt, text_of(c), ":undo:" in c.key) for c in calls]
        super().start(effects)


class Run:
    """One run of a plan in an imagined world, with whatever is done to it."""

    def __init__(self, plan: Plan, seed: int, dies: dict[int, bool], stop_at: int) -> None:
        self.plan, self.seed, self.stop_at = plan, seed, stop_at
        self.disk, self.acted = Disk(dies), []  # type: ignore[var-annotated]
        self.plans: dict[str, Plan] = {}
        self.clock, self.lives = START, 0
        self.before = 0
        """How much had acted before the last revision."""

    def folded(self) -> State:
        return fold(self.plan, RUN_ID, self.disk.entries, self.plans)

    def live(self) -> None:
        """One life: until the run rests, ends, or its process dies."""
        self.lives += 1
        assert self.lives < 200, "the run does not come to an end"
        state = self.folded()
        effects = Effects(self.seed, self.clock, self.acted, self.stop_at if self.lives == 1 else 0)
        driver = Driver(state, self.disk.append, effects, PLACE, Nobody(), len(self.disk.entries))
        try:
            if self.disk.entries:
                driver.record(RunResumed(self.lives))
                driver.record(*self.answers(state))
            else:
                params = {param.name: param.default for param in self.plan.params}
                driver.record(RunStarted("sha256:1", params, self.seed, traits=TRAITS))
            driver.run()
            assert summary(state) == summary(self.folded())
        except Crash:
            pass
        self.clock = effects.now() + 1.0

    def answers(self, state: State) -> list[DoubtSettled]:
        """What a person says who can see what happened."""
        return [self.answer(state, number) for number in range(len(state.tasks)) if _is_doubtful(state, number)]

    def answer(self, state: State, number: int) -> DoubtSettled:
        task, attempt = state.specs[number], state.tasks[number].attempts
        done = [each for each in self.acted if (each.task, each.attempt, each.undo) == (task.id, attempt, False)]
        if not done:
            return DoubtSettled(task.id, attempt, "retry", "test")
        return DoubtSettled(task.id, attempt, "failed", "test", "logic")

    @property
    def now(self) -> Plan:
        """The plan that it has."""
        return list(self.plans.values())[-1] if self.plans else self.plan

    def finished(self, state: State) -> dict[str, str]:
        """What the tasks were called with that have completed and stand so."""
        called = {each.task: each.text for each in self.acted if not each.undo}
        return {
            _plain(task.id): called[task.id]
            for number, task in enumerate(state.specs)
            if state.tasks[number].status == "completed" and task.id in called and is_current(state, number)
        }

    def finish(self) -> State:
        while True:
            state = self.folded()
            if state.ended_at is not None:
                return state
            self.live()

    def revise(self, plan: Plan) -> bool:
        """Give it another plan; False where the run cannot take one as it stands."""
        before_state = self.folded()
        state, before = self.folded(), self.now
        try:
            _refuse_unfit(state)
        except UsageError:
            return False
        digest = f"sha256:{len(self.plans) + 2}"
        said = self.answers(state)
        stopped = _under_way(state, before, plan)
        self.plans[digest] = plan
        last = self.disk.entries[-1].at
        self.clock = max(self.clock, last) + 5.0
        idle = self.clock - last
        event = RunRevised(
            len(self.plans) + 1,
            digest,
            "test",
            "",
            state.params,
            TRAITS,
            state.environment,
            None,
            None,
            stopped,
            False,
            idle,
        )
        events: list[Any] = [RunReopened("revise")] if state.ended_at is not None else []
        events.append(event)
        for each in events:
            evolve(state, each, self.clock)
        said = [
            one
            for one in said
            if not is_gone(state, state.index[one.task])
            and state.tasks[state.index[one.task]].status in ("running", "in_doubt")
        ]
        for one in said:
            evolve(state, one, self.clock)
        try:
            reset = reset_event(before_state, state, stale(state, before, frozenset(), False), "test", False)
        except Unfit:
            del self.plans[digest]
            return False
        first = len(self.disk.entries) + 1
        events += [*said, *([reset] if reset is not None else [])]
        entries = [Entry(seq, self.clock, each) for seq, each in enumerate(events, first)]
        try:
            self.disk.append(entries)
        except Crash:
            if len(self.disk.entries) < first:
                del self.plans[digest]
                return False
        self.before, self.done = len(self.acted), self.finished(before_state)
        self.revised, self.earlier = entries, before
        return True


def checked(run: Run, state: State, plan: Plan) -> Counter[str]:
    """Every promise; gives what was seen."""
    replayed = replay(run.plan, RUN_ID, run.disk.entries, run.plans)
    assert replayed.difference is None, replayed.difference
    assert not decide(state, run.disk.entries[-1].at).commands
    check_items(state, run.disk.entries)
    fresh = Run(plan, run.seed, {}, 0)
    start = fresh.finish()
    seen: Counter[str] = Counter()
    again = {each.task for each in run.acted[run.before :] if not each.undo}
    after = {_plain(name) for name in again}
    keys = Counter((each.task, each.attempt, each.undo) for each in run.acted)
    effects = {
        entry.event.task: entry.event.effect for entry in run.disk.entries if isinstance(entry.event, AttemptStarted)
    }
    for (task, attempt, undo), count in keys.items():
        assert undo or count == 1 or effects[task] != "unsafe", f"attempt {attempt} of {task} acted {count} times"
    for number, task in enumerate(state.specs):
        found = state.tasks[number]
        if number in state.containers or is_gone(state, number) or not is_current(state, number):
            continue
        other = start.index.get(task.id)
        if found.status == "completed" and task.uses and other is not None and start.tasks[other].status == "completed":
            assert found.outputs == start.tasks[other].outputs, (
                f"{task.id} kept what a run from the start does not give"
            )
            seen["kept" if task.id not in again else "again"] += 1
            if state.trait(task).effect == "unsafe" and task.id not in again:
                before = [
                    need
                    for at in (number, *owners(state, number))
                    for need in state.shape.needs[at]
                    if state.specs[at].join.kind != "expression" or _had_settled(run, state, need, task.id)
                ]
                ran = [state.specs[need].id for need in before if _ran(state, need, after)]
                assert not ran, f"{task.id} is kept though {ran} ran again before it"
    return seen


def _plain(path: str) -> str:
    """A path without visits and attempts."""
    return re.sub(r"@\d+", "", path)


def check_repeated(run: Run, state: State) -> int:
    """No unsafe effect that was finished is done again from the same inputs, unless something before it was, or was still
    compared at the moment at which it began: an expression as join is met before all of its tasks have settled."""
    after = {_plain(each.task) for each in run.acted[run.before :] if not each.undo}
    sent_back = {
        _plain(name)
        for entry in run.disk.entries[run.revised[-1].seq :]
        for name in (entry.event.tasks if isinstance(entry.event, TasksReset) else ())
    }
    count = 0
    for each in run.acted[run.before :]:
        path = _plain(each.task)
        if (
            each.undo
            or run.done.get(path) != each.text
            or state.trait(state.specs[state.index[each.task]]).effect != "unsafe"
        ):
            continue
        count += 1
        number = state.index[each.task]
        around = [number, *owners(state, number)]
        if any(_plain(state.specs[at].id) in sent_back or state.specs[at].finally_ for at in around):
            continue
        early = [at for at in around if state.specs[at].join.kind == "expression"]
        if any(_was_compared(run, state, need, each.task) for at in early for need in state.shape.needs[at]):
            continue
        assert any(_ran_before(run, state, at, after) for at in around), f"{each.task} ran again for nothing"
    return count


def _ran_before(run: Run, state: State, number: int, after: set[str]) -> bool:
    """Whether anything that a task comes after, or a round before its own, ran again or is defined otherwise now."""
    before = [*state.shape.needs[number], *(route.source for route in state.shape.routes_in.get(number, ()))]
    if any(_differs(run, _plain(state.specs[other].id)) or _ran(state, other, after) for other in before):
        return True
    frame = state.tasks[number].frame
    if frame.kind == "round" and frame.round > 1:
        round_before = f"{_plain(state.specs[frame.owner].id)}#{frame.round - 1}/"
        return any(name.startswith(round_before) for name in after)
    return False


def _had_settled(run: Run, state: State, need: int, task: str) -> bool:
    """Whether what a task needs had settled when the task began: an expression as join is met before all have."""
    name, entries = state.specs[need].id, run.disk.entries
    began = next(entry.seq for entry in entries if isinstance(entry.event, AttemptStarted) and entry.event.task == task)
    return any(isinstance(entry.event, TaskSettled) and entry.event.task == name for entry in entries[: began - 1])


def _was_compared(run: Run, state: State, need: int, task: str) -> bool:
    """Whether what a task needs had been reset, and had not settled before the moment at which the task began."""
    entries = run.disk.entries[run.revised[0].seq - 1 :]
    name = state.specs[need].id
    reset = any(isinstance(entry.event, TasksReset) and name in entry.event.tasks for entry in entries)
    began = max(entry.at for entry in entries if isinstance(entry.event, AttemptStarted) and entry.event.task == task)
    settled = state.tasks[need].ended
    return reset and (settled is None or settled >= began)


def _ran(state: State, number: int, after: set[str]) -> bool:
    path = _plain(state.specs[number].id)
    return any(name == path or name.startswith((f"{path}/", f"{path}#", f"{path}[")) for name in after)


def _differs(run: Run, path: str) -> bool:
    old, new = ({task.id: task for task in plan.tasks} for plan in (run.earlier, run.now))
    return path in old and path in new and not gives_the_same(old[path], new[path])


def scenario(number: int) -> Counter[str]:
    seed = number % PLANS
    document = fed_plan(seed)
    plan = loaded(document)
    rng = random.Random(f"edit {number}")
    document, mended = edited(rng, document)
    if plan is None or mended is None:
        return Counter(invalid=1)
    calm = Run(plan, seed, {}, 0)
    calm.finish()
    dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.disk.writes + 6), rng.randint(1, 3))}
    run = Run(plan, seed, dies, rng.choice([0, 0, 1, 2, 4]))
    for _ in range(rng.randint(1, 3)):
        run.live()
        if run.folded().ended_at is not None:
            break
    if not run.disk.entries:
        return Counter(nothing=1)
    if not run.revise(mended):
        return Counter(refused=1)
    if rng.random() < 0.4:
        _, last = edited(rng, document)
        run.live()
        if last is not None and run.revise(last):
            mended = last
    state = run.finish()
    return checked(run, state, mended) + Counter(revised=1, repeated=check_repeated(run, state))


@pytest.mark.parametrize("block", range(8))
def test_a_plan_edited_in_the_middle_of_a_run_keeps_what_is_unchanged_and_nothing_else(block: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(block, EDITS, 8):
        seen += scenario(number)
    assert seen["revised"] > seen["refused"]
