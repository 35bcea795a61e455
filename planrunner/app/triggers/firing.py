"""A trigger fires: a run of its plan is put into the queue, once for each reason."""

from __future__ import annotations

import os
import time
from typing import Any

from planrunner.app.plans.path import plan_named
from planrunner.app.queue import asking
from planrunner.app.queue.items import Item
from planrunner.app.queue.store import Store
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.triggers.records import Last, change
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import PlanrunnerError, StorageFailed, UsageError
from planrunner.safety.triggers import Trigger

Json = Any
Params = tuple[tuple[str, Json], ...]


def source_of(name: str) -> str:
    """What the items of a trigger have as their source."""
    return f"trigger:{name}"


def fire(trigger: Trigger, reason: str, place: Workspace, more: Params = (), asked: str = "") -> Item | None:
    """Queue a run because of what ``reason`` names, unless that was done before; ``more`` are parameters beside those
    of the trigger, ``asked`` the digest of what came with the reason. None where an earlier run keeps it from starting.
    Raises as ``enqueue``; what came of it is on record."""
    name, key = trigger.name, f"{source_of(trigger.name)}:{reason}"
    with acting(Principal(f"trigger {name}", (), "trigger"), place), Store(place.state) as store:
        if (known := store.with_key(key, asked)) is not None:
            return known
        try:
            earlier = store.open_from(source_of(name))
            if earlier and trigger.overlap == "skip":
                change(store, name, last=Last(time.time(), problem=f"skipped: run {earlier[0]} of it is not over"))
                return None
            for run in earlier if trigger.overlap == "cancel" else ():
                _cancel(run, name)
            return queue(trigger, store, place.root, more, (key, asked))
        except StorageFailed:
            raise
        except PlanrunnerError as error:
            change(store, name, last=Last(time.time(), problem=error.message))
            raise


def queue(trigger: Trigger, store: Store, root: str, more: Params, once: tuple[str, str] = ("", "")) -> Item:
    """Queue a run of a trigger of the project ``root`` for the principal of the context, and put it on record; ``once``
    are the ``key`` and ``asked`` of ``enqueue``, and it raises as that."""
    params = tuple({**dict(trigger.params), **dict(more)}.items())
    plan = os.path.join(root, plan_named(trigger.plan, root))
    request = ExecRequest(plan, params, state=store.state, unattended=True)
    item = asking.enqueue(request, source_of(trigger.name), trigger.priority, *once)
    change(store, trigger.name, last=Last(time.time(), item.run))
    return item


def _cancel(run: str, name: str) -> None:
    try:
        asking.cancel(run, f"the trigger {name} fired again")
    except UsageError:
        return  # it has ended meanwhile
