"""A plan played in an imagined world, and what must be true of every run whatever its plan is made of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from features.limits import last, passed_limits
from features.pieces import Piece
from planrunner.app.proof.lives import Broken, Lived, Stage, live
from planrunner.app.proof.promises import check, differences
from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.world import World, decided, decision, extended, known_capabilities, lapses, script
from planrunner.capabilities.contract import Call
from planrunner.engine.simulated import Script
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, GateOpened, Outcome, TaskSettled
from planrunner.machine.ledger import amount
from planrunner.machine.rework import is_current
from planrunner.machine.state import State, TaskState
from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Plan, Task
from planrunner.plan.rules.view import Project
from planrunner.plugins.registry import Registry
from planrunner.source import Source

Json = Any
SECONDS = 1.0
NOT_CLEAN = ("PLAN021", "PLAN204")
"""Warnings after which a run may come to nothing: a key without effect, and a value that may be missing."""


class One(NamedTuple):
    """A task of a run: one of the copies of what the plan says once."""

    id: str
    spec: Task
    state: TaskState


class Ran:
    """A run that rests, as claims read it."""

    def __init__(self, document: Mapping[str, Json], piece: Piece, plan: Plan, lived: Lived) -> None:
        self.document = document
        self.piece = piece
        self.plan = plan
        self.lived = lived
        self.state: State = lived.state
        self.entries: Sequence[Entry] = lived.entries
        self.calm = not (piece.fails or piece.ends)
        """Whether everything that the plan asks for has to go well."""

    def of(self, name: str, within: str = "") -> list[One]:
        """The tasks that a task of the plan became, those of rounds and attempts that were given up left out; those of a
        fan-out are its copies, by the name ``id[]``. ``within`` is the path of what they stand in."""
        copies = name.endswith("[]")
        name = name.removesuffix("[]")
        found = []
        for number, (spec, state) in enumerate(zip(self.state.specs, self.state.tasks)):
            fits = last(spec.id) == name and spec.id.endswith("]") == copies and spec.id.startswith(within)
            if fits and is_current_in_rounds(self.state, number):
                found.append(One(spec.id, spec, state))
        return found

    def done(self, name: str, within: str = "") -> list[One]:
        """Those that completed."""
        return [one for one in self.of(name, within) if one.state.status == "completed"]

    def lost(self, name: str, within: str = "", status: str = "completed") -> Iterator[str]:
        """A sentence for each that came to something else, though all should go well."""
        if not self.calm or (status == "completed" and name in self.piece.open):
            return
        found = self.of(name, within)
        if not found:
            yield f"there is no `{name}`"
        for one in found:
            if one.state.status != status:
                state = one.state
                yield f"`{one.id}` is {state.status} ({state.reason}: {state.detail}) and should be {status}"

    def attempts(self, one: One) -> list[AttemptEnded]:
        """The ends of the attempts of a task in its last visit."""
        return [
            entry.event
            for entry in self.entries
            if isinstance(entry.event, AttemptEnded)
            and entry.event.task == one.id
            and entry.event.attempt > one.state.past
        ]

    def starts(self, one: One) -> list[float]:
        return [
            entry.at for entry in self.entries if isinstance(entry.event, AttemptStarted) and entry.event.task == one.id
        ]

    def ends(self, one: One) -> list[float]:
        return [entry.at for entry in self.events_of("AttemptEnded", one.id)]

    def ended(self, name: str) -> list[AttemptEnded]:
        """The ends of all attempts of all copies of a task, in all visits."""
        return [entry.event for entry in self.events(AttemptEnded, name)]

    def spent(self, name: str, what: str) -> float | None:
        """What the ledger has booked for all copies of a task."""
        ledger = self.state.ledger
        if ledger is None:
            return None
        numbers = [
            number
            for number, spec in enumerate(self.state.specs)
            if last(spec.id) == name and number not in self.state.containers
        ]
        return sum(
            float(amount(what, ledger.accounts[at].spent.get(what, 0))) for at in numbers if at in ledger.accounts
        )

    def events_of(self, kind: str, task: str) -> list[Entry]:
        return [entry for entry in self.entries if type(entry.event).__name__ == kind and entry.event.task == task]

    def events(self, kind: type, name: str) -> list[Entry]:
        return [entry for entry in self.entries if isinstance(entry.event, kind) and last(entry.event.task) == name]

    def settled(self, one: One) -> float:
        return max(
            entry.at for entry in self.entries if isinstance(entry.event, TaskSettled) and entry.event.task == one.id
        )


def is_current_in_rounds(state: State, number: int) -> bool:
    """Whether a task belongs to the last attempt of everything that holds it: earlier rounds count as well."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        inner = state.tasks[frame.owner].inner
        while inner is not frame:
            if inner is None:
                return False
            inner = inner.earlier
        frame = state.tasks[frame.owner].frame
    return True


def document_of(name: str, piece: Piece) -> dict[str, Json]:
    """The plan of a piece."""
    keys = {**piece.keys}
    keys["defaults"] = {"timeout": "1h", **keys.get("defaults", {})}
    return {"plan": "pair", "title": name, **keys, "tasks": list(piece.tasks)}


def read(document: Mapping[str, Json], piece: Piece, folder: Path, registry: Registry) -> Loaded:
    """The plan as from a file of the folder, in which those lie that it links."""
    for path, content in piece.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    return load(Source(json.dumps(document), str(folder / "pair.json"), "json"), registry, Project())


def stage_of(plan: Plan, piece: Piece, people: bool = True) -> Stage:
    """The imagined world of a piece. Without ``people`` nobody answers."""
    known = known_capabilities(plan)
    world = World(
        dict(piece.replies),
        dict(piece.gates),
        piece.facts,
        fields=known.fields,
        read=outputs_read(plan),
        seconds=SECONDS,
    )

    def said(state: State, number: int) -> Json:
        return decision(world, state.specs[number].id, state.tasks[number].visit)

    return Stage(
        plan,
        _spending_little(script(world)),
        known.traits,
        {param.name: param.default for param in plan.params},
        7,
        {},
        lambda state, number: decided(state, number, said(state, number)) or extended(state, number) if people else (),
        {},
        lambda state, number: lapses(state, number, said(state, number)) if people else None,
    )


def _spending_little(imagined: Script) -> Script:
    """Attempts that say nothing of their cost had none: otherwise all that is set aside for them counts."""

    def outcome(call: Call) -> Outcome:
        found = imagined.outcome(call)
        limits = call.task.budgets
        free = {what: 0 for what in ("cost", "tokens", "calls") if getattr(limits, what) is not None}
        return found._replace(usage={**free, **found.usage})

    return imagined._replace(outcome=outcome)


def clean(loaded: Loaded) -> list[str]:
    """What lint has against a plan; with nothing it has to run."""
    findings = [each for each in loaded.findings if each.severity == "error" or each.code in NOT_CLEAN]
    return [f"{each.code}: {each.message}" for each in findings]


Look = Callable[[Ran], Iterator[str]]


def faults(
    name: str, piece: Piece, folder: Path, registry: Registry, looks: Sequence[Look] = ()
) -> tuple[list[str], list[str]]:
    """What is wrong with the run of a plan, and by which rules lint refuses it; without a refusal it is played twice, the
    second time with a kill at one of its writes. ``looks`` find more that is wrong with it."""
    document = document_of(name, piece)
    loaded = read(document, piece, folder, registry)
    refused = clean(loaded)
    if refused or loaded.plan is None:
        return [], refused
    stage = stage_of(loaded.plan, piece)
    try:
        lived = live(stage)
        check(loaded.plan, lived)
    except Broken as broken:
        return [f"promise: {broken}"], []
    except Exception as error:
        return [f"crash: {type(error).__name__}: {error}"], []
    ran = Ran(document, piece, loaded.plan, lived)
    found = [*wrong_of_any_run(ran), *wrong_of_claims(ran)]
    for look in looks:
        found += [f"surface: {sentence}" for sentence in look(ran)]
    stops = piece.ends or document.get("on_failure") == "stop"
    return found + _killed(name, stage, lived, stops), []


def wrong_of_claims(ran: Ran) -> Iterator[str]:
    for claim in ran.piece.claims:
        yield from (f"claim: {sentence}" for sentence in claim(ran))


def wrong_of_any_run(ran: Ran) -> Iterator[str]:
    leaves = frozenset(
        spec.id
        for number, spec in enumerate(ran.state.specs)
        if number not in ran.state.containers and spec.gate is None
    )
    yield from (f"limit: {sentence}" for sentence in passed_limits(ran.document, ran.entries, leaves))
    for entry in ran.entries:
        event = entry.event
        if isinstance(event, AttemptEnded) and event.outcome.no_value:
            yield f"knowable: `{event.task}` failed though lint was content: {event.outcome.message}"
        if isinstance(event, TaskSettled) and event.status == "failed" and event.reason in ("when", "edge", "settings"):
            yield f"knowable: `{event.task}` failed ({event.reason}) though lint was content: {event.detail}"
    seen = [entry.event for entry in ran.entries if isinstance(entry.event, GateOpened)]
    yield from (f"gate: `{event.task}` asks and shows nothing" for event in seen if not event.shown)
    waiting = (state.gate for state in ran.state.tasks if state.gate is not None and state.gate.opened)
    yield from ("gate: what a gate has shown is lost" for gate in waiting if not gate.shown)
    if ran.state.ended_at is None or (ran.piece.fails != (ran.state.status == "failed") and not ran.piece.ends):
        yield f"end: the run is {ran.state.status} ({ran.state.reason}: {ran.state.detail})"
    if ran.calm:
        yield from _left(ran)


def _left(ran: Ran) -> Iterator[str]:
    """Where all goes well, everything is done but what may be left."""
    for number, (spec, state) in enumerate(zip(ran.state.specs, ran.state.tasks)):
        if state.status == "completed" or not is_current(ran.state, number):
            continue
        if not any(last(f"{part}") in ran.piece.open for part in _parts(spec.id)):
            yield f"left: `{spec.id}` is {state.status} ({state.reason}: {state.detail})"


def _parts(task: str) -> Iterator[str]:
    parts = task.split("/")
    return ("/".join(parts[: at + 1]) for at in range(len(parts)))


def _killed(name: str, stage: Stage, calm: Lived, cut: bool) -> Iterator[str] | list[str]:
    rng = random.Random(f"kill {name}")
    write = rng.randint(1, calm.writes)
    stored = rng.random() < 0.5
    where = f"killed {'after' if stored else 'before'} write {write} of {calm.writes}"
    try:
        other = live(stage, {write: stored})
        check(stage.plan, other)
    except Broken as broken:
        return [f"kill: {where}: {broken}"]
    except Exception as error:
        return [f"kill: {where}: {type(error).__name__}: {error}"]
    late = any(found.failure == "timeout" for found in calm.state.tasks)
    if cut or late:  # what had begun by then is a matter of timing
        same = calm.state.status == other.state.status
        return [] if same else [f"kill: {where}: the run is {other.state.status} instead of {calm.state.status}"]
    return [f"kill: {where}: {sentence}" for sentence in differences(calm.state, other.state)]
