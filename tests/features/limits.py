"""Whether a run passed a limit, counted from its entries and the text of its plan alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planrunner.app.proof.names import written
from planrunner.machine.events import AttemptEnded, AttemptStarted, BudgetExtended, Entry, FrameOpened, TaskSettled
from planrunner.plan.expressions.quantities import parse_duration

Json = Any
SPENT = ("cost", "tokens", "calls")


def passed_limits(document: Mapping[str, Json], entries: Sequence[Entry], leaves: frozenset[str]) -> Iterator[str]:
    """What of the budgets, timeouts, rounds and copies at once that the plan and its tasks name was passed. ``leaves``
    are the tasks of the run that make calls."""
    tasks = dict(_tasks(document))
    scopes = {"": document.get("budgets", {})} | {name: task.get("budgets", {}) for name, task in tasks.items()}
    yield from _budgets({name: limits for name, limits in scopes.items() if limits}, entries, leaves)
    yield from _timeouts(tasks, entries)
    yield from _rounds(tasks, entries)
    yield from _copies(tasks, entries)


def _tasks(document: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    """Every task that is written somewhere in a plan, by its id."""
    if isinstance(document, list):
        for each in document:
            yield from _tasks(each)
    elif isinstance(document, dict):
        if isinstance(document.get("id"), str):
            yield document["id"], document
        for each in document.values():
            yield from _tasks(each)


def last(task: str) -> str:
    return written(task).rpartition("/")[2]


def around(task: str, names: Mapping[str, Json]) -> Iterator[str]:
    """The paths of a run, of a task and what is around it, whose last part is one of these names; "" is the plan."""
    if "" in names:
        yield ""
    path = ""
    for part in task.split("/"):
        path = f"{path}/{part}" if path else part
        plain = written(path)
        if plain.rpartition("/")[2] in names:
            cut = len(path) - len(part) + min((part.find(mark) for mark in "[#@" if mark in part), default=len(part))
            yield path[:cut]


def _budgets(scopes: Mapping[str, Json], entries: Sequence[Entry], leaves: frozenset[str]) -> Iterator[str]:
    counted: Counter[tuple[str, str]] = Counter()
    spent: Counter[tuple[str, str]] = Counter()
    extra: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        event = entry.event
        if isinstance(event, BudgetExtended):
            extra[event.scope, event.what] += event.amount  # type: ignore[assignment]
        elif isinstance(event, AttemptStarted) and event.task in leaves:
            for scope in around(event.task, scopes):
                counted[scope, "attempts"] += not event.reissue
                for what in event.reserved:
                    limit = _limit(scopes, scope, what)
                    if (
                        limit is not None
                        and spent[scope, what] >= limit + extra[scope, what] > 0
                        and spent[scope, what]
                    ):
                        yield f"`{event.task}` begins though {what} of `{scope}` is used up (entry {entry.seq})"
        elif isinstance(event, AttemptEnded):
            for scope in around(event.task, scopes):
                for what in SPENT:
                    used = event.outcome.usage.get(what, 0)
                    spent[scope, what] += used if isinstance(used, (int, float)) else 0
        elif isinstance(event, FrameOpened) and event.kind == "round":
            for scope in around(event.task, scopes):
                counted[scope, "iterations"] += 1
        for (scope, what), number in counted.items():
            limit = _limit(scopes, scope, what)
            if limit is not None and number > limit + extra[scope, what]:
                yield f"{number} {what} in `{scope or 'the plan'}`, {limit} may be (entry {entry.seq})"
                return


def _limit(scopes: Mapping[str, Json], scope: str, what: str) -> float | None:
    said = scopes.get(last(scope) if scope else "", {}).get(what)
    if said is None:
        return None
    return float(str(said).lstrip("$").replace("k", "000"))


def _timeouts(tasks: Mapping[str, Json], entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        event = entry.event
        if isinstance(event, AttemptEnded):
            limit = tasks.get(last(event.task), {}).get("timeout")
            if isinstance(limit, str) and event.outcome.duration > parse_duration(limit) + 1e-6:
                yield f"attempt {event.attempt} of `{event.task}` took {event.outcome.duration:g} s of {limit}"


def _rounds(tasks: Mapping[str, Json], entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        event = entry.event
        if isinstance(event, FrameOpened) and event.kind == "round":
            most = tasks.get(last(event.task), {}).get("loop", {}).get("max")
            if most is not None and event.number > most:
                yield f"round {event.number} of `{event.task}` begins, {most} may be"


def _copies(tasks: Mapping[str, Json], entries: Sequence[Entry]) -> Iterator[str]:
    """No more copies at once than the fan-out says; copies of containers count while they are under way."""
    running: dict[str, set[str]] = {}
    for entry in entries:
        event = entry.event
        if not isinstance(event, (AttemptStarted, AttemptEnded, TaskSettled)) or not event.task.endswith("]"):
            continue
        fan = event.task.rpartition("[")[0]
        most = tasks.get(last(fan), {}).get("max_parallel")
        under_way = running.setdefault(fan, set())
        if isinstance(event, AttemptStarted):
            under_way.add(event.task)
        else:
            under_way.discard(event.task)
        if isinstance(most, int) and len(under_way) > most:
            yield f"{len(under_way)} copies of `{fan}` at once, {most} may be (entry {entry.seq})"
