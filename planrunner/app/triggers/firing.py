"""A trigger fires: a run of its plan is put into the queue, once for each reason."""

from __future__ import annotations

import time
from typing import Any

from planrunner.app.queue import asking
from planrunner.app.queue.items import Item
from planrunner.app.queue.store import Store
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.triggers.records import Last, set_last
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import PlanrunnerError, StorageFailed, UsageError
from planrunner.safety.triggers import Trigger

Json = Any


def source_of(name: str) -> str:
    """What the items of a trigger have as their source."""
    return f"trigger:{name}"


def principal_of(name: str) -> Principal:
    """Who acts where a trigger fires by itself."""
    return Principal(f"trigger {name}", (), "trigger")


def fire(trigger: Trigger, key: str, place: Workspace, more: tuple[tuple[str, Json], ...] = ()) -> Item | None:
    """Queue a run because of what ``key`` names, unless that was done before; ``more`` are parameters beside those of
    the trigger. None where an earlier run keeps it from starting. Raises as ``enqueue``; what came of it is on
    record."""
    with acting(principal_of(trigger.name), place), Store(place.state) as store:
        known = store.with_key(key)
        if known is not None:
            return known
        try:
            return asked(trigger, store, key, more)
        except StorageFailed:
            raise
        except PlanrunnerError as error:
            set_last(store, trigger.name, Last(time.time(), problem=error.message))
            raise


def asked(trigger: Trigger, store: Store, key: str, more: tuple[tuple[str, Json], ...]) -> Item | None:
    """Queue a run of a trigger for the principal of the context. None, and raises, as ``fire``."""
    earlier = store.open_from(source_of(trigger.name))
    if earlier and trigger.overlap == "skip":
        problem = f"skipped: run {earlier[0]} of it is not over"
        set_last(store, trigger.name, Last(time.time(), problem=problem))
        return None
    for run in earlier if trigger.overlap == "cancel" else ():
        _cancel(run, trigger.name)
    params = tuple({**dict(trigger.params), **dict(more)}.items())
    request = ExecRequest(trigger.plan, params, unattended=True)
    item = asking.enqueue(request, source_of(trigger.name), trigger.priority, key)
    set_last(store, trigger.name, Last(time.time(), item.run))
    return item


def _cancel(run: str, name: str) -> None:
    try:
        asking.cancel(run, f"the trigger {name} fired again")
    except UsageError:
        return  # it has ended meanwhile
