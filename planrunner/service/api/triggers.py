"""The triggers of a project, and the address to which webhooks are sent."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool

from planrunner.app.queue.items import item_object
from planrunner.app.triggers import showing
from planrunner.app.triggers.hooks import BodyUnfit, Delivery, Unsigned, receive
from planrunner.app.triggers.showing import triggers_document
from planrunner.errors import NotFound, PlanrunnerError, RecordMismatch
from planrunner.service.api.answers import Answer, Body, Empty, Key, Name, Why, api_router, shaped
from planrunner.service.context import Admin, Project, Runner
from planrunner.service.problems import Problem
from planrunner.views.documents import document_of

Json = Any

log = logging.getLogger("planrunner.service")

router = api_router("triggers")

_FIRED = shaped("The run that was queued; `run` is null where an earlier run is not over.", "run", status=202)


class Fire(Body):
    """Parameters that take precedence over those of the trigger."""

    params: dict[str, Json] = {}


@router.get("/triggers", responses=shaped("The triggers of the settings.", "triggers"))
def triggers() -> Json:
    """List triggers: what each waits for, when it fires next, and what came of the last time."""
    return triggers_document(showing.shown())


@router.post("/triggers/{trigger}/fire", status_code=202, responses=_FIRED)
def fire(body: Fire, visitor: Runner, trigger: Name, key: Key = "") -> Json:
    """Put a run of a trigger into the queue."""
    once = f"{visitor.token} fire {trigger} {key}" if key else ""
    try:
        item = showing.fire_now(trigger, tuple(body.params.items()), key=once)
    except RecordMismatch as error:
        raise Problem(422, error.message, error.hint) from None
    return document_of(item_object(item))


@router.post("/triggers/{trigger}/pause", responses=shaped("That it is paused.", "paused"))
def pause(body: Why, visitor: Admin, trigger: Name) -> Json:
    """Keep a trigger from firing."""
    return document_of({"paused": showing.pause(trigger, body.reason)._asdict()})


@router.post("/triggers/{trigger}/resume", responses=shaped("That it is not paused.", "paused"))
def resume(body: Empty, visitor: Admin, trigger: Name) -> Json:
    """Let a trigger fire again. What it would have fired for meanwhile is passed over."""
    showing.go_on(trigger)
    return document_of({"paused": None})


hooks = APIRouter(prefix="/hooks", include_in_schema=False)


@hooks.post("/{project}/{trigger}")
async def hook(
    request: Request, project: Annotated[str, Path(max_length=200)], trigger: Annotated[str, Path(max_length=200)]
) -> Answer:
    """Take a signed request. It proves itself by its signature, so it bears no token; a sender that cannot prove
    itself learns nothing of what there is."""
    served: dict[str, Project] = request.app.state.projects
    found = served.get(project)
    if found is None:
        raise _nothing()
    delivery = Delivery({name.lower(): value for name, value in request.headers.items()}, await request.body())
    return await run_in_threadpool(_received, found, trigger, delivery)


def _received(project: Project, trigger: str, delivery: Delivery) -> Answer:
    try:
        item = receive(trigger, delivery, project.place)
    except NotFound:
        raise _nothing() from None
    except Unsigned as error:
        raise Problem(401, error.message, error.hint) from None
    except (BodyUnfit, RecordMismatch) as error:
        raise Problem(422, error.message, error.hint) from None
    except PlanrunnerError as error:  # what is missing is for the operator: the sender sees nothing of the project
        log.error("the webhook %s of the project %s: %s", trigger, project.name, error.message)
        raise Problem(503, "this webhook cannot take requests", "the log of the service says why") from None
    return Answer(document_of({"run": None if item is None else item.run}), 202)


def _nothing() -> Problem:
    return Problem(404, "there is no such webhook", "`planrunner trigger` lists the addresses of those that there are")
