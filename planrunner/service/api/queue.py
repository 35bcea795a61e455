"""The queue of a project: what runs and waits, taken out of it, paused and resumed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from planrunner.app.queue import asking
from planrunner.app.queue.items import Item, Pause, Status, item_object, items_document
from planrunner.service.api.answers import Answer, Empty, Limit, Name, Why, api_router, shaped
from planrunner.service.api.steering import Cancel
from planrunner.service.context import Admin, HereProject, HereVisitor, Runner, behalf
from planrunner.views.documents import document_of

Json = Any

router = api_router("queue")

_ITEM = ("run", "status", "plan", "by", "source", "priority")
_PAUSED = shaped("Whether the queue is paused, by whom and why.", "paused")


@router.get("/queue", responses=shaped("Runs in the queue.", "items", "counts", "paused", "worker", "limits"))
def queue(
    visitor: HereVisitor,
    project: HereProject,
    status: Annotated[list[Status], Query()] = [],  # noqa: B006  # FastAPI copies defaults
    skip: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    limit: Limit = 100,
) -> Answer:
    """List runs in the queue: those that go on, those that wait in their order, those that are over."""
    with behalf(visitor, project):
        return Answer(items_document(asking.items(tuple(status), limit, skip), asking.overview()))


@router.get("/queue/{run}", responses=shaped("The run in the queue.", *_ITEM))
def item(visitor: HereVisitor, project: HereProject, run: Name) -> Answer:
    """Show how a run stands in the queue, also before it has begun."""
    with behalf(visitor, project):
        return _told(asking.item(run))


@router.post("/queue/pause", responses=_PAUSED)
def pause(body: Why, visitor: Admin, project: HereProject) -> Answer:
    """Start nothing more from the queue; runs that have begun go on."""
    with behalf(visitor, project):
        return _paused(asking.pause(body.reason))


@router.post("/queue/resume", responses=_PAUSED)
def resume(body: Empty, visitor: Admin, project: HereProject) -> Answer:
    """Let a queue that was paused be worked off again."""
    with behalf(visitor, project):
        asking.go_on()
    return _paused(None)


@router.post("/queue/{run}/cancel", responses=shaped("The run in the queue.", *_ITEM))
def cancel(body: Cancel, visitor: Runner, project: HereProject, run: Name) -> Answer:
    """Take a run out of the queue, or end it where it has begun."""
    with behalf(visitor, project):
        return _told(asking.cancel(run, body.reason, now=body.now))


def _told(found: Item) -> Answer:
    return Answer(document_of(item_object(found)))


def _paused(pause: Pause | None) -> Answer:
    return Answer(document_of({"paused": None if pause is None else pause._asdict()}))
