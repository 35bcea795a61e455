"""Ask for runs through the queue, and for what becomes of them there.

Everything here acts for the principal and in the workspace of the context (``caller.acting``); ``state`` is a state
directory, None for that of the workspace.
"""

from __future__ import annotations

from typing import Any

from planrunner.app.queue.items import Act, Item, Overview, Pause, Status
from planrunner.app.runs.execute import ExecRequest

Json = Any


def enqueue(request: ExecRequest, source: str, priority: int = 0, key: str = "") -> Item:
    """Put a run into the queue, durably, and give its item; ``item.run`` is the id of the run to come. A living worker
    takes it at once where a slot is free.

    The plan is read, checked and admitted first, so that whatever would keep it from starting is told here: raises
    NotFound, PlanInvalid, UsageError (parameters, task names, a queue that is full), Denied, Unready, StorageFailed.
    ``request.ask`` asks here; what is answered holds for the run. A dry run is not queued: UsageError. ``key`` makes it
    once: where an item has it already, that item is given and nothing is added.
    """
    raise NotImplementedError


def take_up(run: str, act: Act = "resume", arguments: dict[str, Json] | None = None, state: str | None = None) -> Item:
    """Let the worker act on a run that exists, from the queue or from elsewhere: go on with it (``resume``), or
    ``retry``, ``rerun`` and ``rollback`` with the fields of ``RerunRequest`` and ``RollbackRequest`` as ``arguments``.
    Looked at beforehand: raises NotFound, UsageError where there is nothing to do, RunHeld for a run that is acted
    on, StorageFailed."""
    raise NotImplementedError


def cancel(run: str, reason: str = "", state: str | None = None) -> Item:
    """Cancel what was asked for: an item that waits leaves the queue and never runs; a run that has begun is asked to
    end, as ``planrunner cancel`` does, and is driven to its end by the worker. Raises NotFound, UsageError for one that
    is over."""
    raise NotImplementedError


def pause(reason: str = "", state: str | None = None) -> Pause:
    """Let nothing more be taken from the queue; what runs goes on. Raises StorageFailed."""
    raise NotImplementedError


def go_on(state: str | None = None) -> Pause | None:
    """Let the queue be worked off again; gives the pause that this ends, None where there was none."""
    raise NotImplementedError


def item(run: str, state: str | None = None) -> Item:
    """The item of a run. Raises NotFound where the run is not in the queue."""
    raise NotImplementedError


def items(
    statuses: tuple[Status, ...] = (), limit: int = 100, after: int = 0, state: str | None = None
) -> tuple[Item, ...]:
    """Items, those that are open first in the order in which they are taken, then those that are over, the last one
    first. ``statuses`` selects, ``after`` skips so many."""
    raise NotImplementedError


def overview(state: str | None = None) -> Overview:
    """The queue at this moment; an empty one where nothing was ever queued."""
    raise NotImplementedError
