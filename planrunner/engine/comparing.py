"""Walk a recorded run with an edited plan: the same walk, and where an attempt starts its call is rendered with both
plans, so that the difference names the input and not only a digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrunner.capabilities.contract import Call
from planrunner.engine.calls import Prepared, prepare
from planrunner.engine.effects import Effect, StartCall
from planrunner.engine.opening import opened
from planrunner.engine.replaying import Replay, origin, place_of
from planrunner.machine.commands import Open, Start
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, FrameOpened, RunStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.replay import Difference, Replayed, first_difference, kind_of, plain, task_of
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.source import NOWHERE

Json = Any


def replay_edited(pinned: Plan, edited: Plan, run_id: str, entries: Sequence[Entry], started: RunStarted) -> Replayed:
    """Walk a run of ``pinned`` with the plan ``edited``; ``started`` is the first event as it would be with that."""
    began = origin(run_id, entries)
    walk = _Comparison(State(pinned, began), Replay(State(edited, began)))
    for entry in entries:
        difference = walk.step(entry, started)
        if difference is not None:
            return walk.replay.result(difference)
    difference = walk.replay.rest()
    return walk.replay.result(difference and walk.explain(difference, None))


class _Comparison:
    """Two plans side by side: ``pinned`` follows the record, ``replay`` decides with the edited plan."""

    __slots__ = ("_calls", "_effects", "pinned", "replay")

    def __init__(self, pinned: State, replay: Replay) -> None:
        self.pinned = pinned
        self.replay = replay
        self._effects: list[Effect] = []
        self._calls: dict[tuple[str, int], Call] = {}

    def step(self, entry: Entry, started: RunStarted) -> Difference | None:
        first = isinstance(entry.event, RunStarted)
        difference = self.replay.step(entry._replace(event=started) if first else entry)
        if isinstance(entry.event, AttemptStarted) and (difference is None or difference.field == "inputs"):
            difference = self._compare_calls(entry, entry.event, difference)
        if difference is not None:
            return self.explain(difference, entry)
        evolve(self.pinned, entry.event, entry.at)
        return None

    def _compare_calls(self, entry: Entry, event: AttemptStarted, known: Difference | None) -> Difference | None:
        number = self.pinned.index[event.task]
        if number in self.pinned.holders:
            return known and self._compare_frames(known, number, event.attempt)
        start = Start(number, event.attempt, event.reissue, event.reserved, event.degraded)
        before = prepare(self.pinned, start, place_of(self.pinned))
        after = self._call(event)
        if before.call is None or after is None:
            return known and known._replace(**_unrendered(before, self.replay.reason()))
        one, other = _asked(before.call), _asked(after)
        if one == other:
            return known
        field, expected, got = first_difference(one, other)
        message = f"attempt {event.attempt} of `{event.task}` would be called with another `{field}`"
        return Difference(entry.seq, kind_of(event), event.task, field, expected, got, message)

    def _compare_frames(self, known: Difference, number: int, attempt: int) -> Difference:
        """A task that holds others begins with other items, parameters or carried values."""
        before, after = opened(self.pinned, Open(number, attempt))[-1], self.replay.following()
        if not (isinstance(before, FrameOpened) and isinstance(after, FrameOpened)):
            reason = before.outcome.message if isinstance(before, AttemptEnded) else None
            return known._replace(field="message", expected=reason, got=self.replay.reason() or None)
        field, expected, got = first_difference(plain(before.values), plain(after.values))
        word = {"items": "items", "round": "carry", "subplan": "params"}[after.kind]
        where = f"{word}{field}" if field.startswith("[") or not field else f"{word}.{field}"
        message = f"`{known.task}` would begin with another `{where}`"
        return known._replace(field=where, expected=expected, got=got, message=message)

    def _call(self, event: AttemptStarted) -> Call | None:
        if self.replay.effects is not self._effects:
            self._effects = self.replay.effects
            calls = [effect.call for effect in self._effects if isinstance(effect, StartCall)]
            self._calls = {(call.task.id, call.attempt): call for call in calls}
        return self._calls.get((event.task, event.attempt))

    def explain(self, difference: Difference, entry: Entry | None) -> Difference:
        """Say of a task that only one of the plans has that this is so."""
        got = self.replay.got
        new = "" if got is None else task_of(got)
        if got is not None and new and new not in self.pinned.index:
            what = "would start here" if isinstance(got, AttemptStarted) else f"is decided here ({kind_of(got)})"
            message = f"task `{new}` is new and {what}"
            return Difference(difference.seq, kind_of(got), new, "task", None, new, message)
        gone = "" if entry is None else task_of(entry.event)
        if gone and gone not in self.replay.state.index:
            message = f"task `{gone}` is not in the plan any more"
            return difference._replace(task=gone, field="task", expected=gone, got=None, message=message)
        return difference


def _unrendered(before: Prepared, reason: str) -> dict[str, Json]:
    """What differs where only one of the plans can render the call."""
    was = before.outcome.message if before.outcome is not None else None
    now = reason or None
    return {"field": "message", "expected": was, "got": now, "message": "the call can be rendered by one plan only"}


def _asked(call: Call) -> Json:
    """Everything an attempt is told, as plain data under the names that plans use."""
    task = call.task
    templates = dict(task.script.values) if task.script is not None else {}
    return plain({
        "uses": task.uses,
        "with": dict(call.inputs),
        "run": task.run,
        "arguments": call.arguments,
        "values": {templates.get(name, name): value for name, value in call.values.items()},
        "env": dict(call.env),
        "cwd": call.directory,
        "stdin": call.stdin,
        "ready": call.ready,
        "shell": task.shell,
        "stdout": task.stdout,
        "timeout": call.timeout,
        "outputs": {output.name: output._replace(span=NOWHERE) for output in task.outputs},
        "artifacts": {artifact.name: artifact._replace(span=NOWHERE) for artifact in task.artifacts},
    })  # fmt: skip
