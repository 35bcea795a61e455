"""The queue of a project: what runs and waits, taken out of it, paused and resumed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from planrunner.app.queue import asking
from planrunner.app.queue.items import Item, Pause, Status, item_object, items_document
from planrunner.service.api.answers import Empty, Limit, Name, Why, api_router, shaped
from planrunner.service.api.steering import Cancel
from planrunner.service.context import Admin, Runner
from planrunner.views.documents import document_of

Json = Any

router = api_router("queue")

_ITEM = ("run", "status", "plan", "by", "source", "priority")
_PAUSED = shaped("Whether the queue is paused, by whom and why.", "paused")


@router.get("/queue", responses=shaped("Runs in the queue.", "items", "counts", "paused", "worker", "limits"))
def queue(
    status: Annotated[list[Status], Query()] = [],  # noqa: B006  # FastAPI copies defaults
    skip: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    limit: Limit = 100,
) -> Json:
    """List runs in the queue: those that go on, those that wait in their order, those that are over."""
    return items_document(asking.items(tuple(status), limit, skip), asking.overview())


@router.get("/queue/{run}", responses=shaped("The run in the queue.", *_ITEM))
def item(run: Name) -> Json:
    """Show how a run stands in the queue, also before it has begun."""
    return _told(asking.item(run))


@router.post("/queue/pause", responses=_PAUSED)
def pause(body: Why, visitor: Admin) -> Json:
    """Start nothing more from the queue; runs that have begun go on."""
    return _paused(asking.pause(body.reason))


@router.post("/queue/resume", responses=_PAUSED)
def resume(body: Empty, visitor: Admin) -> Json:
    """Let a queue that was paused be worked off again."""
    asking.resume_queue()
    return _paused(None)


@router.post("/queue/{run}/cancel", responses=shaped("The run in the queue.", *_ITEM))
def cancel(body: Cancel, visitor: Runner, run: Name) -> Json:
    """Take a run out of the queue, or end it where it has begun."""
    return _told(asking.cancel(run, body.reason, now=body.now))


def _told(found: Item) -> Json:
    return document_of(item_object(found))


def _paused(pause: Pause | None) -> Json:
    return document_of({"paused": None if pause is None else pause._asdict()})
