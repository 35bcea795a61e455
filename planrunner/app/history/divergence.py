"""Where two runs part: their tasks side by side, what differs in each, and from which task that follows.

A difference follows from another one where the machine's decisions lead from the one to the other: by needs, edges,
values that are read, a task that holds others, or a level that stopped because a task on it failed. What follows from
no other task is a first difference, and is explained by what went into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.machine.graph import Frame
from planrunner.machine.names import item_label, label, local_name, replaced_tasks, written_path
from planrunner.machine.state import State, TaskState
from planrunner.plan.identity import Difference, paths_read
from planrunner.records import Struct
from planrunner.views.compare import Change, Stand, TaskPair, change_text
from planrunner.views.status import elapsed, outputs_of, shown_status

Json = Any

_LONGEST = 60
"""Characters of an item that tells it apart from the others."""
_NOT_RUN = frozenset({"omitted", "skipped", "cancelled", "pending", "queued", "abandoned"})


class Inputs(Struct):
    """What went into two runs and is not the same: differences of the plans, parameters and versions; ``decided`` tells
    by task what people said in the one and in the other."""

    plan: tuple[Difference, ...]
    params: tuple[Change, ...]
    versions: tuple[Change, ...]
    decided: Mapping[str, str]


def divergence(one: State, other: State, inputs: Inputs) -> list[TaskPair]:
    """The tasks of both runs in the order of the plan, each followed by what it holds. One that only the first run has
    stands where it stood there."""
    sides = _Side(one), _Side(other)
    pairs = {key: _pair(key, *sides) for key in _merged(*(side.in_order() for side in sides))}
    return list(_Causes(pairs, *sides, inputs).explained())


def _merged(one: list[str], other: list[str]) -> Iterator[str]:
    """The keys of the second list, and behind each those that only the first has after it."""
    known, behind, last = set(other), dict[str, list[str]](), ""
    for key in one:
        if key in known:
            last = key
        else:
            behind.setdefault(last, []).append(key)
    yield from behind.get("", ())
    for key in other:
        yield key
        yield from behind.get(key, ())


class _Side:
    """The tasks of a run that count, under keys by which the same task of another run is found: an item of a fan-out
    goes by what it is, not by its position."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.keys: dict[int, str] = {}
        self.numbers: dict[str, int] = {}
        self._items: dict[int, Counter[str]] = {}
        replaced = replaced_tasks(state)
        for number in range(len(state.tasks)):
            if number not in replaced:
                key = self._key(number)
                self.keys[number] = key
                self.numbers[key] = number

    def in_order(self) -> list[str]:
        """The keys, those of what a task holds behind its own."""
        held: dict[int, list[int]] = {}
        for number in self.keys:
            held.setdefault(self.state.tasks[number].frame.owner, []).append(number)
        listed, todo = list[str](), held.get(-1, [])[::-1]
        while todo:
            number = todo.pop()
            listed.append(self.keys[number])
            todo += reversed(held.get(number, ()))
        return listed

    def _key(self, number: int) -> str:
        frame = self.state.tasks[number].frame
        local = local_name(self.state, number)
        if frame.kind == "items":
            value = stable_json(frame.values[number - frame.first])
            tells = len(value) <= _LONGEST and self._alike(frame)[value] == 1
            own = item_label(self.state, number) or (f"[={value}]" if tells else local)
            return f"{self._owner(frame.owner)}{own}"
        return local if frame.owner < 0 else f"{self._owner(frame.owner)}{_round(frame.kind, frame.round)}/{local}"

    def _alike(self, frame: Frame) -> Counter[str]:
        """How often each item of a fan-out stands in it."""
        if frame.first not in self._items:
            self._items[frame.first] = Counter(map(stable_json, frame.values))
        return self._items[frame.first]

    def _owner(self, owner: int) -> str:
        return self.keys.get(owner) or self.state.specs[owner].id


def _round(kind: str, number: int) -> str:
    return f"#{number}" if kind == "round" else ""


def _stand(state: State, number: int) -> Stand:
    task = state.tasks[number]
    outcome = task.outcome
    end = state.ended_at or state.now
    return Stand(
        shown_status(state, number),
        task.attempts - task.past,
        task.failure,
        outcome.exit_code if outcome is not None else None,
        round(elapsed(task, end), 3) if task.started is not None else None,
        round(task.ended - state.started_at, 3) if task.ended is not None else None,
        task.detail,
    )


def _pair(key: str, one: _Side, other: _Side) -> TaskPair:
    before, after = one.numbers.get(key), other.numbers.get(key)
    side, number = (other, after) if after is not None else (one, before)
    assert number is not None, "a key belongs to a task of one of the runs"
    name = label(side.state, number)
    stand = None if before is None else _stand(one.state, before)
    stand_after = None if after is None else _stand(other.state, after)
    if before is None or after is None or stand is None or stand_after is None:
        only = (f"only in the {'first' if after is None else 'second'} run",)
        return TaskPair(name, stand, stand_after, only, True)
    changes = _changes(stand, stand_after)
    tasks = one.state.tasks[before], other.state.tasks[after]
    gates = [task.gate.decision if task.gate is not None else "" for task in tasks]
    if gates[0] != gates[1] and all(gates):
        changes.append(f"gate {gates[0]} → {gates[1]}")
    lesser = [*_attempts(stand, stand_after), *_given(*tasks)]
    return TaskPair(name, stand, stand_after, (*changes, *lesser), bool(changes))


def _changes(one: Stand, other: Stand) -> list[str]:
    """How a task ended otherwise; empty where it did not."""
    if one.status != other.status:
        return [f"{_word(one.status)} → {_word(other.status)}{_how(other) or _how(one)}"]
    return [f"failed{_how(one)} → failed{_how(other)}"] if _how(one) != _how(other) else []


def _attempts(one: Stand, other: Stand) -> list[str]:
    ran = one.status not in _NOT_RUN and other.status not in _NOT_RUN
    return [f"attempts {one.attempts} → {other.attempts}"] if ran and one.attempts != other.attempts else []


def _how(stand: Stand) -> str:
    """How a task failed, in parentheses."""
    how = f"exit code {stand.exit_code}" if stand.exit_code else stand.failure
    return f" ({how})" if stand.status == "failed" and how else ""


def _given(before: TaskState, after: TaskState) -> Iterator[str]:
    """The outputs that differ, of a task that went well in both runs."""
    if before.status != after.status or before.inner is not None or after.inner is not None:
        return
    one, other = outputs_of(before), outputs_of(after)
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            yield f"output {name}: {change_text(Change(name, one.get(name), other.get(name)))}"


def _word(value: Json) -> str:
    return "not run" if value == "omitted" else "none" if value in (None, "") else str(value).replace("_", " ")


class _Causes:
    """From which task each difference follows."""

    def __init__(self, pairs: dict[str, TaskPair], one: _Side, other: _Side, inputs: Inputs) -> None:
        self.pairs, self.one, self.other, self.inputs = pairs, one, other, inputs
        self.differing = {key for key, pair in pairs.items() if pair.changes}
        self.params = {change.name for change in inputs.params}

    def explained(self) -> Iterator[TaskPair]:
        causes = {key: self._cause(key) for key in self.differing}
        for key in self.differing:  # a circle, such as of rounds, is cut at its earliest task
            self._cut(key, causes)
        for key, pair in self.pairs.items():
            if key not in self.differing:
                yield pair
            elif cause := causes[key]:
                yield pair._replace(follows=self.pairs[cause].task, inside=self._holds(key, cause))
            else:
                yield pair._replace(because=tuple(self._because(key)))

    def _cut(self, key: str, causes: dict[str, str]) -> None:
        way: dict[str, None] = {}
        at = key
        while at and at not in way:
            way[at] = None
            at = causes[at]
        if at:
            circle = list(way)[list(way).index(at) :]
            causes[min(circle, key=lambda each: self.pairs[each].at)] = ""

    def _cause(self, key: str) -> str:
        """The differing task that this difference follows from: of several the earliest whose result differs. What
        only gave something else explains what gives something else, and no failure."""
        before = {other for side in (self.one, self.other) for other in self._before(side, key)} & self.differing
        before.discard(key)
        if self.pairs[key].result:
            before = {each for each in before if self.pairs[each].result}
        return min(before, key=lambda each: (self.pairs[each].at, each), default="")

    def _before(self, side: _Side, key: str) -> Iterator[str]:
        """The tasks of a run from which a task's fate may follow directly."""
        number = side.numbers.get(key)
        state = side.state
        if number is None:
            return
        inside = self._inside(side, number)
        for at in (*_leading(state, number), *self._read(side, number), *inside):
            if at in side.keys:
                yield side.keys[at]
        mine = self.pairs[key]
        frame = state.tasks[number].frame
        if frame.owner >= 0 and (mine.one is None or mine.other is None):
            yield side.keys.get(frame.owner, "")
        if state.tasks[number].status in _NOT_RUN or state.specs[number].finally_:
            yield from (side.keys[at] for at in frame.failures if at in side.keys and at != number)

    def _inside(self, side: _Side, number: int) -> Iterable[int]:
        """What a task holds, as far as both runs have it."""
        inner = side.state.tasks[number].inner
        while inner is not None:
            for at in range(inner.first, inner.first + inner.size):
                pair = self.pairs.get(side.keys.get(at, ""))
                if pair is not None and pair.one is not None and pair.other is not None:
                    yield at
            inner = inner.earlier

    def _read(self, side: _Side, number: int) -> Iterator[int]:
        """The tasks of the same level whose results a task reads, and the last of an earlier round."""
        state = side.state
        frame = state.tasks[number].frame
        for path in paths_read(state.specs[number]):
            if path[0] == "tasks" and len(path) > 1 and path[1] in frame.index:
                yield frame.index[path[1]]
        if frame.kind == "round" and frame.earlier is not None:
            yield from range(frame.earlier.first, frame.earlier.first + frame.earlier.size)

    def _holds(self, key: str, cause: str) -> bool:
        for side in (self.one, self.other):
            number = side.numbers.get(cause)
            while number is not None and number >= 0:
                number = side.state.tasks[number].frame.owner
                if number >= 0 and side.keys.get(number) == key:
                    return True
        return False

    # What explains a first difference

    def _because(self, key: str) -> Iterator[str]:
        side = self.other if key in self.other.numbers else self.one
        number = side.numbers[key]
        task, name = side.state.specs[number], self.pairs[key].task
        told = [*self._of_plan(written_path(side.state, number)), *self._of_params(task)]
        if name in self.inputs.decided:
            told.append(self.inputs.decided[name])
        yield from told
        yield from self._of_call(key, bool(told))

    def _of_plan(self, path: str) -> Iterator[str]:
        for what, change, fields in self.inputs.plan:
            if what == f"task {path}" or (what.startswith("edge ") and path in what.split()):
                names = f": {', '.join(name for name, _, _ in fields)}" if fields else ""
                yield f"the plan differs: {what} {change}{names}"
            elif what in ("budgets", "policy") and any(
                pair.one is not None and pair.other is not None and what in (pair.one.failure, pair.other.failure)
                for pair in self.pairs.values()
            ):
                yield f"the plan differs: {what} {change}"

    def _of_params(self, task: Json) -> Iterator[str]:
        read = {".".join(path[:2]) for path in paths_read(task)} if self.params else set()
        for change in self.inputs.params:
            if f"params.{change.name}" in read or "params" in read:
                yield f"it reads the parameter {change.name}: {change_text(change)}"

    def _of_call(self, key: str, explained: bool) -> Iterator[str]:
        one, other = (
            side.state.tasks[side.numbers[key]].inputs if key in side.numbers else "" for side in (self.one, self.other)
        )
        if not (one and other):
            return
        if one == other:
            yield "it was called with the same inputs in both runs: the difference comes from outside the plan"
            if not explained:
                yield from (f"versions differ: {each.name} {change_text(each)}" for each in self.inputs.versions[:4])
        elif not explained:
            gave = [
                self.pairs[each].task
                for side in (self.one, self.other)
                for each in self._before(side, key)
                if each in self.differing and each != key
            ]
            names = ", ".join(f"`{each}`" for each in dict.fromkeys(gave))
            yield f"it was called with other inputs{f': {names} gave something else' if names else ''}"


def _leading(state: State, number: int) -> Iterator[int]:
    """What a task waits for: needs, and sources of edges."""
    yield from state.shape.needs[number]
    yield from (route.source for route in state.shape.routes_in.get(number, ()))
