"""A run in an imagined world, through every crash of its process: each life folds the journal and goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.app.proof.names import matches
from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.world import World, known_capabilities, script, staged
from planrunner.capabilities.contract import Call
from planrunner.engine.calls import Place, timeout_of, with_values
from planrunner.engine.effects import Effect, StartCall
from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script, SimulatedEffects, in_time
from planrunner.frozen import EMPTY
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    DoubtSettled,
    Entry,
    Event,
    Outcome,
    RunResumed,
    RunStarted,
    StopRequested,
    UndoStarted,
)
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.records import Struct

Json = Any


START = 1_700_000_000.0
RUN_ID = "20231114-2213-000000"
PLACE = Place("/", "/nowhere")
LIVES = 500
"""How often a run is taken up again before it counts as one that never ends."""


class Crash(Exception):
    """The process dies."""


class Broken(Exception):
    """A promise does not hold; the message says which one and for what."""


class Disk:
    """The journal of one run in memory, dying at the writes it is told to: ``dies`` maps the number of a write (over
    all lives of the process) to whether the entries still reach the disk."""

    def __init__(self, dies: Mapping[int, bool] | None = None) -> None:
        self.entries: list[Entry] = []
        self.writes = 0
        self.killed: list[Kill] = []
        self._dies = dies or {}

    def append(self, entries: Sequence[Entry]) -> None:
        self.writes += 1
        stored = self._dies.get(self.writes)
        if stored is not False:
            self._store(entries)
        if stored is not None:
            self.killed.append(Kill(self.writes, stored, type(entries[0].event).__name__, len(entries)))
            raise Crash

    def _store(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.seq != len(self.entries) + 1:
                raise Broken(f"P1: entry {entry.seq} follows {len(self.entries)}")
            self.entries.append(entry)


class Kill(Struct):
    """A death at a journal write: its number, whether the entries reached the disk, and what was to be written."""

    write: int
    stored: bool
    first: str
    entries: int


class Nobody:
    """An onlooker who does not look."""

    def event(self, entry: Entry) -> None:
        pass

    def tick(self, now: float) -> None:
        pass


class Mishap(Struct):
    """What goes wrong while one attempt is under way: the process dies (``crash``) or is asked to stop (``stop``)."""

    task: str
    attempt: int
    kind: str


class Acted(Struct):
    """An effect that began: in which life, of which task and attempt."""

    life: int
    task: str
    attempt: int


class WatchedEffects(SimulatedEffects):
    """Imagined effects that refuse to act without a durable intent, note what acted, and let mishaps happen."""

    __slots__ = ("_disk", "_life", "_mishaps", "acted")

    def __init__(self, script: Script, start: float, disk: Disk, acted: list[Acted], mishaps: list[Mishap]) -> None:
        super().__init__(script, start)
        self._disk = disk
        self._mishaps = mishaps
        self._life = acted[-1].life + 1 if acted else 1
        self.acted = acted

    def start(self, effects: Sequence[Effect]) -> None:
        calls = [effect.call for effect in effects if isinstance(effect, StartCall)]
        if calls:
            check_intents(self._disk.entries, calls)
        self.acted.extend(Acted(self._life, call.name, call.attempt) for call in calls)
        super().start(effects)

    def wait(self, until: float | None) -> list[Event]:
        due = self._mishap()
        if due is None:
            return super().wait(until)
        self._mishaps.remove(due)
        if due.kind == "crash":
            raise Crash
        return [StopRequested("interrupted")]

    def _mishap(self) -> Mishap | None:
        """The mishap of an attempt that has begun."""
        if not self._mishaps:
            return None
        begun = {(acted.task, acted.attempt) for acted in self.acted}
        for mishap in self._mishaps:
            if any(attempt == mishap.attempt and matches(mishap.task, task) for task, attempt in begun):
                return mishap
        return None


def check_intents(entries: Sequence[Entry], calls: Sequence[Call]) -> None:
    """Every call that begins has its intent among the durable ``entries``; raises Broken."""
    intents = {
        ("undo:" * isinstance(entry.event, UndoStarted) + entry.event.task, entry.event.attempt, entry.event.key)
        for entry in entries
        if isinstance(entry.event, (AttemptStarted, UndoStarted))
    }
    for call in calls:
        if (call.name, call.attempt, call.key) not in intents:
            raise Broken(f"P2: attempt {call.attempt} of `{call.name}` acted before its intent was durable")


class Stage(Struct):
    """Everything that a run in an imagined world needs. ``answer`` gives what people say about a task that waits, by
    its number; ``settle`` what becomes of an attempt in doubt that acted (None: what the script knows)."""

    plan: Plan
    script: Script
    traits: Mapping[str, Json]
    params: Mapping[str, Json] = EMPTY
    seed: int = 0
    environment: Mapping[str, str] = EMPTY
    answer: Callable[[State, int], Sequence[Event]] = lambda state, number: ()
    settle: Mapping[str, str] = EMPTY
    lapses: Callable[[State, int], float | None] = lambda state, number: None
    """When an undecided gate expires, by its number (seconds since 1970)."""


class Lived(Struct):
    """A run that rests. ``acted`` is each effect that began, in order; ``lives`` how often a process took it up."""

    state: State
    entries: list[Entry]
    acted: list[Acted]
    writes: int
    lives: int
    killed: list[Kill]

    @property
    def duration(self) -> float:
        """Seconds on the virtual clock from the first entry to the last."""
        return self.entries[-1].at - self.entries[0].at


def live(stage: Stage, dies: Mapping[int, bool] | None = None, mishaps: Sequence[Mishap] = ()) -> Lived:
    """Run to the end, or until it waits for a person who does not answer, through every crash.

    Doubts are settled by what happened: an attempt that never acted is issued again, one
    that acted ends as it did. Raises Broken when a promise does not hold.
    """
    disk = Disk(dies)
    acted: list[Acted] = []
    coming = list(mishaps)
    clock = START
    for life in range(1, LIVES):
        effects = WatchedEffects(stage.script, clock, disk, acted, coming)
        try:
            state = _life(stage, disk, effects, life)
        except Crash:
            clock = effects.now() + 1.0
            continue
        clock = effects.now()
        if state.ended_at is not None:
            return Lived(state, disk.entries, acted, disk.writes, life, disk.killed)
        if state.status != "paused" and not _answers(stage, state, acted):
            due = _lapse(stage, state)
            if due is None:
                return Lived(state, disk.entries, acted, disk.writes, life, disk.killed)
            clock = max(clock, due)
    raise Broken(f"the run has not ended after {LIVES} resumes")


def _life(stage: Stage, disk: Disk, effects: WatchedEffects, life: int) -> State:
    """One life of the process: from what the disk holds until the run rests or the process dies."""
    state = fold(stage.plan, RUN_ID, disk.entries)
    if state.ended_at is not None:
        return state
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(disk.entries))
    if not disk.entries:
        environment = {"env": dict(stage.environment), "directory": PLACE.directory}
        driver.record(
            RunStarted(
                "sha256:test",
                dict(stage.params),
                stage.seed,
                traits=dict(stage.traits),
                environment=environment,
            )
        )
    else:
        answers = _answers(stage, state, effects.acted) if state.status != "running" else []
        driver.record(RunResumed(life, "test"))
        for event in answers:
            driver.record(event)
    driver.run()
    return state


def _answers(stage: Stage, state: State, acted: Sequence[Acted]) -> list[Event]:
    """What people say about the tasks that wait."""
    events: list[Event] = []
    for number, task_state in enumerate(state.tasks):
        if task_state.status == "in_doubt" and task_state.reason == "ask":
            events += _settled(stage, state, number, acted)
        elif task_state.status == "blocked":
            events += stage.answer(state, number)
    return events


def _lapse(stage: Stage, state: State) -> float | None:
    """When the first undecided gate expires."""
    dues = [
        due
        for number, task_state in enumerate(state.tasks)
        if task_state.status == "blocked" and (due := stage.lapses(state, number)) is not None
    ]
    return min(dues, default=None)


def _settled(stage: Stage, state: State, number: int, acted: Sequence[Acted]) -> list[Event]:
    task, task_state = state.specs[number], state.tasks[number]
    said = next((stage.settle[name] for name in stage.settle if matches(name, task.id)), "")
    if said == "wait":
        return []
    if said in ("retry", "completed", "failed"):
        return [DoubtSettled(task.id, task_state.attempts, said, "test")]  # type: ignore[arg-type]
    if not any(one.task == task.id and one.attempt == task_state.attempts for one in acted):
        return [DoubtSettled(task.id, task_state.attempts, "retry", "test")]
    call = Call(RUN_ID, task, task_state.attempts, "", task.inputs or {}, "", (), {}, {}, "/", "", timeout_of(task))
    return [with_values(state, AttemptEnded(task.id, task_state.attempts, _watched(call, stage.script.outcome(call))))]


def _watched(call: Call, outcome: Outcome) -> Outcome:
    """The outcome of an attempt as observed: its watchdog or its timeout ended it if it took too long."""
    found = in_time(call, outcome)
    ends = [step for step in call.task.watchdog if step.do in ("fail", "cancel") and step.after < found.duration]
    if not ends:
        return found
    first = min(ends, key=lambda step: step.after)
    failure = "cancelled" if first.do == "cancel" else "timeout"
    message = f"stopped by its watchdog after {first.after:g} s"
    return found._replace(failure=failure, message=message, outputs={}, exit_code=None, duration=first.after)


class Dry(NamedTuple):
    """The plan as a dry run walks it, traits for the machine, and effects that only remember what would be called."""

    plan: Plan
    traits: dict[str, Json]
    effects: SimulatedEffects


def assumed(plan: Plan, now: float) -> Dry:
    """Criteria and preconditions are taken to hold, and what waits for a person is taken to be done, since an imagined
    world has neither measurements nor people. ``now`` is where its clock starts (seconds since 1970)."""
    known = known_capabilities(plan)
    world = World(judged=False, people=False, seconds=0.0, fields=known.fields, read=outputs_read(plan))
    return Dry(staged(plan, world), known.traits, SimulatedEffects(script(world), now))
