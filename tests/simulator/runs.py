"""One run of a plan in an imagined world, with seeded outcomes, crashes at chosen journal writes and a check of every
promise that can be checked without a disk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from planrunner.app.proof.lives import PLACE, RUN_ID, START, Broken, Crash, Disk, Nobody, check_intents
from planrunner.app.proof.promises import check_checkpoints, check_items, check_settled_once, check_slots, check_starts
from planrunner.capabilities.contract import Call
from planrunner.engine.calls import prepare
from planrunner.engine.effects import Effect, StartCall
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.budgets import chain, limit_of, scope_of
from planrunner.machine.commands import Start
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BudgetExtended,
    DoubtSettled,
    Entry,
    Event,
    Outcome,
    RollbackEnded,
    RollbackStarted,
    RunEnded,
    RunReopened,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskSettled,
    TasksReset,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.evolve import CUT_OFF, evolve, fold
from planrunner.machine.graph import Frame
from planrunner.machine.ledger import amount
from planrunner.machine.rework import Reset, Unfit, is_current, reset_event, retried, run_again
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import comes_last

Json = Any


def rerun(state: State, seed: int, entries: Sequence[Entry], most: int) -> TasksReset | None:
    """What somebody begins anew in a run that has ended or was stopped; None where they leave it at that, as after
    ``most`` times."""
    if state.status not in ("completed", "failed", "cancelled", "paused"):
        return None
    done = sum(isinstance(entry.event, TasksReset) and entry.event.reason != "rework" for entry in entries)
    if done >= most:
        return None
    rng = random.Random(f"{seed}/anew/{done}")
    for _ in range(4):
        retry = rng.random() < 0.3
        try:
            anew = _retried(rng, state) if retry else _run_again(rng, state)
        except Unfit:
            continue
        return reset_event(state, anew, "retry" if retry else "rerun", "test")
    return None


def _some(rng: random.Random, state: State) -> list[int]:
    numbers = [number for number in range(len(state.tasks)) if is_current(state, number)]
    return sorted(rng.sample(numbers, min(len(numbers), rng.choice([1, 1, 2, 3]))))


def _retried(rng: random.Random, state: State) -> Reset:
    return retried(state, [] if rng.random() < 0.7 else _some(rng, state))


def _run_again(rng: random.Random, state: State) -> Reset:
    wanted, all_after, only_failed = _some(rng, state), rng.random() < 0.2, rng.random() < 0.2
    return run_again(state, wanted, all_after=all_after, by_call=rng.random() < 0.5, only_failed=only_failed)


def check_anew(plan: Plan, entries: Sequence[Entry]) -> None:
    """Raises Broken where something under ``finally`` did not follow what ran on its level, or where a result was kept
    though its call is another."""
    state = State(plan, RUN_ID)
    watched = _Watched()
    for entry in entries:
        event = entry.event
        if isinstance(event, TaskSettled) and event.reason == "reused":
            watched.kept(state, event, entry.seq)
        evolve(state, event, entry.at)
        if isinstance(event, (AttemptStarted, AttemptEnded)):
            watched.acted(state, event, entry.seq)
        elif isinstance(event, TaskSettled):
            watched.settled[state.index[event.task]] = entry.seq
        elif isinstance(event, RunEnded):
            watched.check_finals(state, entry.seq)


class _Watched:
    """What the attempts of a run were called with and gave, and when something last ran on each level."""

    def __init__(self) -> None:
        self.inputs: dict[int, str] = {}
        self.outputs: dict[int, Json] = {}
        self.ran: dict[Frame, int] = {}
        self.settled: dict[int, int] = {}

    def acted(self, state: State, event: AttemptStarted | AttemptEnded, seq: int) -> None:
        number = state.index[event.task]
        if number in state.containers:
            return
        if isinstance(event, AttemptEnded):
            self.outputs[number] = event.outcome.outputs
            return
        self.inputs[number] = event.inputs
        self.outputs[number] = {}  # somebody who saw the end of an attempt in doubt tells no outputs
        while number >= 0:
            frame = state.tasks[number].frame
            if not comes_last(state.specs[number]):
                self.ran[frame] = seq
            number = frame.owner

    def kept(self, state: State, event: TaskSettled, seq: int) -> None:
        number = state.index[event.task]
        found = state.tasks[number]
        if comes_last(state.specs[number]) and found.frame in self.ran:
            raise Broken(f"`{event.task}` comes last and kept its result though its level ran (entry {seq})")
        if number in state.containers:
            if found.inner in self.ran:
                raise Broken(f"`{event.task}` counts as kept though something inside it ran (entry {seq})")
            return
        if found.kept is None:
            raise Broken(f"`{event.task}` kept what nobody gave (entry {seq})")
        before = found.kept.number
        now = prepare(state, Start(number, found.attempts + 1), PLACE).intent.inputs
        if now != self.inputs[before]:
            raise Broken(f"`{event.task}` kept its result though it would be called otherwise (entry {seq})")
        assert found.kept.outcome is not None
        if found.kept.outcome.outputs != self.outputs[before]:
            raise Broken(f"`{event.task}` kept what is not its result (entry {seq})")
        self.inputs[number], self.outputs[number] = now, self.outputs[before]

    def check_finals(self, state: State, seq: int) -> None:
        for frame, at in self.ran.items():
            for final in frame.finals if frame.last < 0 else (frame.last, *frame.finals):
                if is_current(state, final) and self.settled.get(final, 0) < at:
                    raise Broken(f"`{state.specs[final].id}` did not follow what ran on its level (entry {seq})")


Json = Any


class WatchedEffects(SimulatedEffects):
    """Imagined effects that refuse to act without a durable intent, and count what acted."""

    __slots__ = ("_stop_at", "_waits", "acted", "disk")

    def __init__(
        self, script: Script, start: float, disk: Disk, acted: list[tuple[str, int]], stop_at: int = 0
    ) -> None:
        super().__init__(script, start)
        self.disk = disk
        self.acted = acted
        self._stop_at = stop_at
        self._waits = 0

    def wait(self, until: float | None) -> list[Event]:
        self._waits += 1
        if self._waits == self._stop_at:
            return [StopRequested("interrupted")]
        return super().wait(until)

    def start(self, effects: Sequence[Effect]) -> None:
        calls = [effect.call for effect in effects if isinstance(effect, StartCall)]
        if calls:
            check_intents(self.disk.entries, calls)
        self.acted += [(call.name, call.attempt) for call in calls]
        super().start(effects)


class World(NamedTuple):
    """A plan, its capabilities' traits, and the seed that decides every outcome."""

    plan: Plan
    traits: dict[str, Json]
    seed: int
    failure_rate: float = 0.3
    feeds: bool = False
    """Tasks give few different values, and lists, so that another attempt often gives the same."""
    reports: bool = False
    """What may spend reports any usage, whatever it has set aside, or none."""


SPENDERS = {"shell": ("cost", "tokens"), "llm.complete": ("cost", "tokens", "calls"), "research.search": ("calls",)}
"""What the capabilities of such a world may report."""


def _reported(world: World, call: Call) -> dict[str, Json]:
    rng = random.Random(f"{world.seed}/{call.name}/{call.attempt}/reports")
    some: dict[str, Json] = {
        "cost": rng.choice([0.0, 0.05, 0.2, rng.random()]),
        "tokens": rng.randint(0, 60),
        "calls": 1,
    }
    return {what: some[what] for what in SPENDERS.get(call.task.uses, ()) if rng.random() < 0.8}


def outcome_for(world: World, call: Call) -> Outcome:
    """The same task and attempt always end the same way, whoever asks and whenever. What has a limit of its own spends
    some of it, and does not always tell."""
    outcome = _outcome_for(world, call)
    if world.reports:
        return outcome._replace(usage=_reported(world, call))
    if call.task.budgets.cost is None:
        return outcome
    rng = random.Random(f"{world.seed}/{call.name}/{call.attempt}/cost")
    told: dict[str, Json] = {"cost": call.task.budgets.cost * rng.choice([0.0, 0.1, 0.5, rng.random()]) / 4}
    return outcome._replace(usage=rng.choice([told, told, told, {}, {"cost": -1.0}, {"cost": "much"}]))


def _outcome_for(world: World, call: Call) -> Outcome:
    rng = random.Random(f"{world.seed}/{call.name}/{call.attempt}")
    duration = rng.choice([0.0, 0.1, 1.0, rng.random() * 30])
    if rng.random() < world.failure_rate:
        failure = rng.choice(["transient", "logic", "logic", "policy"])
        if rng.random() < 0.1 and ":undo:" not in call.key:  # of what undoes something only a stop takes the end
            return Outcome(failure="cancelled", message="by test: imagined", duration=duration)
        return Outcome(failure=failure, message="imagined", exit_code=1, duration=duration)
    if world.feeds:
        some = rng.sample(range(4), rng.randint(0, 3))
        return Outcome(outputs={"value": rng.randint(0, 1), "list": some}, exit_code=0, duration=duration)
    return Outcome(outputs={"value": rng.randint(0, 9)}, exit_code=0, duration=duration)


class Simulated(NamedTuple):
    """``acted`` is each effect that began, in order; ``lives`` how often a process had to take the run up."""

    state: State
    entries: list[Entry]
    acted: list[tuple[str, int]]
    writes: int
    lives: int


def simulate(world: World, dies: dict[int, bool] | None = None, stop_at: int = 0, again: int = 0) -> Simulated:
    """Run to the end through every crash. Doubts are settled as a person would who can see what happened: an attempt
    that
    never acted is issued again, one that acted is told as it ended. In its first life the run is asked to stop at its
    ``stop_at``-th wait. Once it has ended, and where it was stopped, random tasks of it are begun anew, ``again`` times
    in all. Raises Broken when a promise does not hold."""
    disk = Disk(dies)
    acted: list[tuple[str, int]] = []
    clock = START
    for life in range(1, 1000):
        effects = WatchedEffects(_script(world), clock, disk, acted, stop_at if life == 1 else 0)
        try:
            state = _live(world, disk, effects, life, again)
        except Crash:
            clock = effects.now() + 1.0
            continue
        doubts = [task for task, found in zip(state.specs, state.tasks) if found.status == "in_doubt"]
        if state.ended_at is not None or not (doubts or state.status == "paused"):
            check(world, state, disk.entries, acted)
            if rerun(state, world.seed, disk.entries, again) is None:
                return Simulated(state, disk.entries, acted, disk.writes, life)
        clock = effects.now() + 1.0
    raise Broken("the run does not come to an end")


def _script(world: World) -> Script:
    return Script(lambda call: outcome_for(world, call), lambda names: dict.fromkeys(names, 1))


def _live(world: World, disk: Disk, effects: WatchedEffects, life: int, again: int) -> State:
    """One life of the process: from what the disk holds until the run rests or the process dies."""
    state = fold(world.plan, RUN_ID, disk.entries)
    anew = rerun(state, world.seed, disk.entries, again)
    if state.ended_at is not None and anew is None:
        return state
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(disk.entries))
    if not disk.entries:
        driver.record(
            RunStarted(
                "sha256:test",
                {"flag": world.plan.params[0].default},
                world.seed,
                traits=world.traits,
            )
        )
    elif anew is not None:
        ended = [] if state.ended_at is None else [RunReopened(anew.reason, "test")]
        driver.record(*ended, RunResumed(life), anew)
    else:
        driver.record(RunResumed(life))
        for task, found in zip(list(state.specs), state.tasks):
            at_once = world.seed % 2 == 0 and found.uncertain and state.trait(task).effect == "unsafe"
            if found.status == "in_doubt" or at_once:
                driver.record(_answer(world, effects, task, found.attempts))
    driver.run()
    return state


def _answer(world: World, effects: WatchedEffects, task: Task, attempt: int) -> DoubtSettled:
    if (task.id, attempt) not in effects.acted:
        return DoubtSettled(task.id, attempt, "retry", "test")
    outcome = outcome_for(world, Call("", task, attempt, "", {}, "", (), {}, {}, "", "", None))
    return DoubtSettled(task.id, attempt, "failed" if outcome.failure else "completed", "test", outcome.failure)


def check(world: World, state: State, entries: Sequence[Entry], acted: Sequence[tuple[str, int]]) -> None:
    """The promises that the record of a run can show; raises Broken."""
    again = fold(world.plan, RUN_ID, entries)
    if summary(again) != summary(state):
        raise Broken("the state is not the fold of the journal")
    if state.ended_at is not None and decide(state, entries[-1].at).commands:
        raise Broken("something is decided after the end")
    replayed = replay(world.plan, RUN_ID, entries)
    if replayed.difference is not None:
        raise Broken(f"P14: the replay differs at entry {replayed.difference.seq}: {replayed.difference}")
    check_settled_once(entries)
    check_slots(state, entries)
    check_items(state, entries)
    check_checkpoints(state, entries)
    check_starts(world.plan, entries)
    _check_unsafe(world, entries, acted)
    _check_undos(entries)
    check_anew(world.plan, entries)
    if world.reports:
        check_limits(world.plan, entries)
    elif state.ledger is not None:
        check_budgets(world.plan, entries)
    if state.ended_at is None:
        return
    if not isinstance(entries[-1].event, RunEnded):
        raise Broken("the end is not the last entry")
    for task, found in zip(state.specs, state.tasks):
        if found.status not in SETTLED:
            raise Broken(f"the run ended while {task.id} is {found.status}")
    failed = any(found.dependency_outcome == "failed" for found in state.tasks[: len(world.plan.tasks)])
    if (state.status == "failed") != failed and state.reason not in ("budget", "deadline"):
        raise Broken(f"the run is {state.status} and failed tasks: {failed}")
    cancelled = any(
        found.dependency_outcome == found.status == "cancelled" for found in state.tasks[: len(world.plan.tasks)]
    )
    if (state.status == "completed" and cancelled) or (state.reason == "task" and not cancelled):
        raise Broken(f"the run is {state.status} ({state.reason}) and cancelled tasks: {cancelled}")


def _check_undos(entries: Sequence[Entry]) -> None:
    """The last attempt to begin is undone first, one at a time in each rollback, and nothing that is undone is undone
    again. What a linked plan did is undone before the attempt that links it ends."""
    visits = _Visits()
    orders: dict[str, list[int]] = {}
    undone: set[int] = set()
    for entry in entries:
        event = entry.event
        visits.follow(entry)
        if isinstance(event, AttemptEnded) and event.task in orders:
            raise Broken(f"{event.task} ended before it was undone, at entry {entry.seq}")
        if isinstance(event, RollbackEnded):
            orders.pop(event.within, None)
        elif isinstance(event, RollbackStarted):
            orders[event.within] = list(event.owed)
            began = [visits.began(event, at) for at in event.owed]
            if began != sorted(began, reverse=True):
                raise Broken(f"a rollback does not undo the last attempt first, at entry {entry.seq}")
        elif isinstance(event, UndoStarted):
            turn = [within for within, order in orders.items() if event.owed in order]
            if event.owed in undone or len(turn) != 1:
                raise Broken(f"a rollback undoes {event.task} out of its turn, at entry {entry.seq}")
            order = orders[turn[0]]
            orders[turn[0]] = order[order.index(event.owed) :]
        elif isinstance(event, UndoSettled) and event.status == "undone":
            undone.add(event.owed)


class _Visits:
    """When each visit of a task that can be undone began its last attempt, and which position in what the run owes is
    which visit: of a task the higher position is the later one."""

    def __init__(self) -> None:
        self._of: dict[str, list[list[int]]] = {}
        self._begun: dict[str, bool] = {}
        self._known: dict[int, list[int]] = {}

    def follow(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, TasksReset):
            self._begun.update(dict.fromkeys(event.tasks, False))
        elif isinstance(event, AttemptStarted) and event.undo:
            found = self._of.setdefault(event.task, [])
            if not self._begun.get(event.task):
                found.append([0])
            found[-1][0] = entry.seq
            self._begun[event.task] = True
        elif isinstance(event, TaskSettled) and event.reason == "reused" and self._begun.get(event.task):
            self._of[event.task].pop()  # it owes what it owed before
            self._begun[event.task] = False

    def began(self, event: RollbackStarted, position: int) -> int:
        if position not in self._known:
            task = event.tasks[event.owed.index(position)]
            told = [at for name, at in zip(event.tasks, event.owed) if name == task and at not in self._known]
            left = [visit for visit in self._of[task] if all(visit is not known for known in self._known.values())]
            self._known.update(zip(sorted(told, reverse=True), reversed(left)))
        return self._known[position][0]


def check_budgets(plan: Plan, entries: Sequence[Entry]) -> None:
    """Spent and set aside never pass a limit, at any entry (P10): of any scope by the ledger, and of the plan's cost by
    the entries alone. Holds for worlds in which no attempt uses more than it has set aside."""
    state = State(plan, RUN_ID)
    held: dict[str, float] = {}
    spent = extra = 0.0
    for entry in entries:
        evolve(state, entry.event, entry.at)
        event = entry.event
        if isinstance(event, AttemptStarted):
            held[event.task] = event.reserved.get("cost", 0.0)
        elif isinstance(event, AttemptEnded) and event.outcome.failure not in CUT_OFF:
            told, aside = event.outcome.usage.get("cost"), held.pop(event.task, 0.0)
            spent += told if isinstance(told, (int, float)) and told >= 0 else aside
        elif isinstance(event, (TaskSettled, DoubtSettled)) and event.task in held:
            gone = event.status in SETTLED if isinstance(event, TaskSettled) else event.resolution != "retry"
            spent += held.pop(event.task) if gone else 0.0
        elif isinstance(event, BudgetExtended) and (event.scope, event.what) == ("", "cost"):
            extra += event.amount
        if plan.budgets.cost is not None and spent + sum(held.values()) > plan.budgets.cost + extra + 1e-9:
            raise Broken(f"P10: {spent} spent and {sum(held.values())} set aside at entry {entry.seq}")
        _check_accounts(state, entry.seq)


def check_limits(plan: Plan, entries: Sequence[Entry]) -> None:
    """No attempt that may spend begins, for the first time or again, once what was told inside a scope around it is all
    that the scope may spend. Limits around what is under ``finally`` do not count, nor those around a task that
    declares to spend nothing and has not told otherwise."""
    state = State(plan, RUN_ID)
    told: dict[tuple[int, str], float] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, AttemptStarted) and (number := state.index[event.task]) not in state.containers:
            for what in set(SPENDERS.get(state.specs[number].uses, ())) & {"cost", "tokens"}:
                _check_scopes(state, number, what, told, entry.seq)
        evolve(state, event, entry.at)
        if isinstance(event, AttemptEnded):
            for scope in chain(state, state.index[event.task]):
                for what, used in event.outcome.usage.items():
                    told[scope, what] = told.get((scope, what), 0) + used


def _check_scopes(state: State, number: int, what: str, told: dict[tuple[int, str], float], seq: int) -> None:
    if limit_of(state, number, what) == 0 and not told.get((number, what)):
        return
    for scope in chain(state, number):
        limit = limit_of(state, scope, what)
        used = told.get((scope, what), 0)
        if limit is not None and used and used >= amount(what, limit):
            raise Broken(f"`{state.specs[number].id}` begins at entry {seq} though {used} {what} of {limit} are used")
        if scope >= 0 and state.specs[scope].finally_:
            return


def _check_accounts(state: State, seq: int) -> None:
    for number, account in (state.ledger.accounts if state.ledger is not None else {}).items():
        scope = scope_of(state, number)
        for what in scope.limits if scope is not None else ():
            limit = limit_of(state, number, what)
            if min(account.reserved.get(what, 0), account.spent.get(what, 0)) < 0:
                raise Broken(f"P10: less than nothing of {what} is booked in scope {number} at entry {seq}")
            if limit is not None and account.taken(what) > limit:
                raise Broken(f"P10: {account.taken(what)} of {limit} {what} are taken in scope {number} at entry {seq}")


def _check_unsafe(world: World, entries: Sequence[Entry], acted: Sequence[tuple[str, int]]) -> None:
    unsafe = {
        entry.event.task
        for entry in entries
        if isinstance(entry.event, AttemptStarted) and entry.event.effect == "unsafe"
    }
    seen: set[tuple[str, int]] = set()
    for key in acted:
        if key in seen and key[0] in unsafe:
            raise Broken(f"P3: the unsafe attempt {key[1]} of {key[0]} acted twice")
        seen.add(key)


def summary(state: State) -> list[tuple[str, str, str, int, str]]:
    """What must be the same however the run came to its end: statuses, outcomes, attempts and who recovered what."""
    return sorted(
        (task.id, found.status, found.dependency_outcome, found.attempts, found.recovered_by)
        for task, found in zip(state.specs, state.tasks)
    )
