"""What stands in the queue: one item for each run that was asked for there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from planrunner.caller import Principal
from planrunner.records import Struct
from planrunner.views.documents import document

Json = Any

Status = Literal["waiting", "starting", "running", "interrupted", "parked", "completed", "failed", "cancelled"]
"""``waiting`` for its turn; ``starting``: a worker has taken it and its run is about to begin or to go on; ``running``:
a process has the lease of its run; ``interrupted``: its worker is gone, the next one takes it up; ``parked``: the run
waits for people or for a time and takes no slot; ``completed``, ``failed`` and ``cancelled`` are over."""

STATUSES: tuple[Status, ...] = get_args(Status)
OPEN: tuple[Status, ...] = ("waiting", "starting", "running", "interrupted", "parked")
"""What is not over yet."""

ENDS: dict[str, Status] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled"}
"""What an item is once its run has ended."""

Act = Literal["start", "resume", "retry", "rerun", "rollback"]
"""What is done with the run when its turn comes: it starts, goes on, or is opened again for a use case of
``app/runs``."""


class Item(Struct):
    """One run in the queue. ``number`` counts up in the order of asking; ``run`` is the id that the run has from the
    moment it is asked for, also before it is in the journal. ``plan`` is the absolute path, ``digest`` the SHA-256 of
    the text that was asked for. ``by`` asked, ``source`` says through what (``api``, ``page``, ``cli``,
    ``trigger:NAME``). Higher ``priority`` comes first. Times are seconds since 1970: ``enqueued``, ``begun`` (first
    taken), ``ended``; ``wakes`` is when a parked run goes on by itself, None where only people can help. ``reason``
    says in words why it waits, failed or was cancelled; ``code`` is the exit code of a run that ended or parked, or of
    the error that kept it from starting."""

    number: int
    run: str
    plan: str
    digest: str
    params: dict[str, Json]
    by: Principal
    source: str
    priority: int
    act: Act
    status: Status
    enqueued: float
    begun: float | None = None
    ended: float | None = None
    wakes: float | None = None
    reason: str = ""
    code: int | None = None
    ahead: int | None = None
    """How many come before it; None unless it waits."""


class Pause(NamedTuple):
    """That nothing is taken from the queue: who paused it, when, and why."""

    by: str
    at: float
    reason: str = ""


class Overview(Struct):
    """A queue at one moment. ``counts`` has the number of items of each status that there are; ``worker`` names the
    process that works it off, empty where none does. ``limits`` are those that hold."""

    counts: dict[str, int]
    pause: Pause | None
    worker: str
    limits: Limits


class Limits(NamedTuple):
    """How much runs at once: ``concurrency`` runs (None: as many as there are), ``size`` items that wait at most (None:
    any number), ``per_minute`` runs that begin within a minute (None: any number) and ``burst`` of them without a
    break. ``queued`` is whether runs wait for each other at all."""

    concurrency: int | None = 10
    size: int | None = None
    per_minute: int | None = None
    burst: int | None = None
    queued: bool = True


def waiting_reason(overview: Overview) -> str:
    """What keeps the next run of a queue waiting, in words; empty where its turn comes at once."""
    if overview.pause is not None:
        why = f": {overview.pause.reason}" if overview.pause.reason else ""
        return f"the queue is paused by {overview.pause.by}{why}"
    if not overview.worker:
        return "no worker works off the queue"
    most = overview.limits.concurrency
    busy = overview.counts.get("running", 0) + overview.counts.get("starting", 0)
    if most is not None and busy >= most:
        return f"{busy} of at most {most} runs at once are going on (`scheduler.max_concurrency`)"
    return ""


def item_object(item: Item) -> dict[str, Json]:
    """An item as programs read it."""
    return {
        **item._asdict(),
        "by": {"name": item.by.name, "roles": list(item.by.roles)},
    }


def item_document(item: Item) -> dict[str, Json]:
    """One item, as commands print it with ``--json``."""
    return document(**item_object(item))


def items_document(items: Iterable[Item], overview: Overview) -> dict[str, Json]:
    """A page of the queue, as ``planrunner queue --json`` prints it."""
    return document(items=[item_object(each) for each in items], **overview_object(overview))


def overview_object(overview: Overview) -> dict[str, Json]:
    """The state of a queue as programs read it."""
    return {
        "counts": overview.counts,
        "paused": None if overview.pause is None else overview.pause._asdict(),
        "worker": overview.worker or None,
        "limits": overview.limits._asdict(),
    }
