"""The triggers of a project as people and programs are shown them, and what they may ask of one."""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import Any, NamedTuple

from planrunner.app.people.questions import why_refused
from planrunner.app.queue.items import Item, Pause
from planrunner.app.queue.store import Store
from planrunner.app.triggers.firing import Params, queue, source_of
from planrunner.app.triggers.records import Last, change, records
from planrunner.caller import principal, workspace
from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError
from planrunner.journal.workspace import NAME, find_project, find_state
from planrunner.plan.nearest import nearest
from planrunner.safety.triggers import Trigger, read_triggers
from planrunner.views.documents import listing

Json = Any

_NEXT = 3
"""Times that are told in advance."""


class Shown(NamedTuple):
    """A trigger, when it fires next, whether it is paused, what came of the last time, its run that is not over yet
    (empty for none), and what is wrong with it."""

    trigger: Trigger
    times: tuple[float, ...] = ()
    paused: Pause | None = None
    last: Last | None = None
    open_run: str = ""
    problem: str = ""


def shown(state: str | None = None) -> list[Shown]:
    """The triggers of the project in the order of its settings. Raises as ``read_triggers``."""
    there, root = _place(state)
    triggers = read_triggers(root)
    if not triggers:
        return []
    try:
        with Store(there, readonly=True) as store:
            kept = records(store)
            acting = {name: store.open_from(source_of(name)) for name in triggers}
    except NotFound:
        kept, acting = {}, {}
    result = []
    for name, trigger in triggers.items():
        found = kept.get(name)
        times, problem = _times(trigger)
        problem = problem or why_refused(trigger, root)
        runs = acting.get(name) or [""]
        result.append(
            Shown(trigger, times, found.paused if found else None, found.last if found else None, runs[0], problem)
        )
    return result


def _times(trigger: Trigger) -> tuple[tuple[float, ...], str]:
    if trigger.kind != "cron":
        return (), ""
    try:
        times = import_module("planrunner.app.triggers.times")  # by name: only the clock needs the extra
        return tuple(times.next_times(trigger, time.time(), _NEXT)), ""
    except PlanrunnerError as error:
        return (), error.message


def fire_now(name: str, params: Params = (), state: str | None = None, key: str = "") -> Item:
    """Queue a run of a trigger for the principal of the context, whatever its overlap says; once for a ``key``. Raises
    NotFound, and as ``enqueue``."""
    there, root = _place(state)
    trigger = find(root, name)
    with Store(there) as store:
        return queue(trigger, store, root, params, (key, ""))


def pause(name: str, reason: str = "", state: str | None = None) -> Pause:
    """Let a trigger fire no more, until ``go_on``. Raises NotFound, StorageFailed."""
    there, root = _place(state)
    find(root, name)
    paused = Pause(principal().name, time.time(), reason)
    with Store(there) as store:
        change(store, name, paused=paused)
    return paused


def go_on(name: str, state: str | None = None) -> None:
    """Let a trigger fire again. What it would have fired for meanwhile is passed over. Raises NotFound."""
    there, root = _place(state)
    find(root, name)
    with Store(there) as store:
        change(store, name, paused=None)


def find(root: str, name: str) -> Trigger:
    """A trigger by its name. Raises NotFound with the nearest one."""
    known = read_triggers(root)
    if name in known:
        return known[name]
    near = nearest(name, known)
    way = Hint(f"did you mean `{near}`? " if near else "", NextStep("trigger"), " lists them")
    raise NotFound(f"there is no trigger `{name}`", way)


def what(trigger: Trigger) -> str:
    """What a trigger waits for, in a few words."""
    if trigger.kind == "cron":
        return f"{trigger.cron} ({trigger.timezone})"
    if trigger.kind == "webhook":
        return f"webhook /hooks/PROJECT/{trigger.name}"
    return f"changes of {', '.join(trigger.watch)}"


def trigger_object(one: Shown) -> dict[str, Json]:
    """A trigger as programs read it."""
    trigger = one.trigger
    return {
        "name": trigger.name,
        "kind": trigger.kind,
        "description": trigger.description,
        "plan": trigger.plan,
        "params": dict(trigger.params),
        "what": what(trigger),
        "cron": trigger.cron or None,
        "timezone": trigger.timezone if trigger.kind == "cron" else None,
        "missed": trigger.missed if trigger.kind == "cron" else None,
        "overlap": trigger.overlap,
        "priority": trigger.priority,
        "watch": list(trigger.watch),
        "next": list(one.times),
        "paused": None if one.paused is None else one.paused._asdict(),
        "last": None if one.last is None else one.last._asdict(),
        "open_run": one.open_run or None,
        "problem": one.problem or None,
    }


def triggers_document(found: list[Shown]) -> dict[str, Json]:
    """The triggers as ``planrunner trigger --json`` prints them."""
    return listing("triggers", map(trigger_object, found))


def _place(state: str | None) -> tuple[str, str]:
    """The state directory, and the project that it belongs to."""
    there = find_state(None, state)
    if os.path.basename(there) == NAME and not workspace().state:
        return there, os.path.dirname(there)
    return there, find_project(None)
