"""Requests of other processes, answered for the run that is held: with a look at the world where a vote needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.engine.calls import Place, no_value
from planrunner.engine.effects import Weigh
from planrunner.errors import MISMATCH, PlanInvalid, UsageError
from planrunner.machine.requests import Reply, refused, reply
from planrunner.machine.state import State
from planrunner.safety.people import read_project
from planrunner.safety.project import unsound

if TYPE_CHECKING:
    from planrunner.journal.records import Request

Json = Any


def looks(state: State, request: Request, place: Place) -> tuple[dict[str, Json], ...]:
    """What of the world has to be looked at before the answer: the evidence of the gate that a vote is for."""
    number = state.index.get(str(request.body.get("gate"))) if request.kind == "vote" else None
    gate = state.tasks[number].gate if number is not None else None
    if number is None or gate is None or not gate.waits:
        return ()
    from planrunner.engine.gates import request as asked

    try:
        return tuple(asked(state, number, gate.stage, place).get("looks", ()))
    except no_value():
        return ()  # which the answer says


def answer(state: State, request: Request, place: Place, now: float, weighed: Weigh | None = None) -> Reply:
    """What a request comes to at ``now`` (seconds since 1970 on the run's time line); ``weighed`` is what was looked at
    for it already."""
    if not request.ours:
        return _foreign()
    if request.kind != "vote":
        return reply(state, request.kind, request.body, request.by)
    return _weigh(state, request, place, now, weighed)


def _foreign() -> Reply:
    said = "the request bears no seal of your audit key, so it counts for nothing (`state.foreign`)"
    return Reply((), False, f"{said}: ask with the XDG_DATA_HOME or the PLANRUNNER_AUDIT_KEY_FILE of the run", MISMATCH)


def _weigh(state: State, request: Request, place: Place, now: float, weighed: Weigh | None) -> Reply:
    """A vote counts for what is there now: what has changed since it was shown is asked anew. Roles are those that the
    project lists, and only where it lists nobody those that the voter claims."""
    body = dict(request.body)
    try:
        people = read_project(place.directory).people
    except UsageError as error:
        return refused(error.message)
    except PlanInvalid as error:
        return refused(unsound(error))
    by = str(body.get("by") or request.by)
    body.update(by=by, user=request.by, now=now, roles=[], claimed=list(body.get("roles") or ()))
    if people is not None:
        body.update(roles=list(people.get(by, ())), claimed=[])
    found = reply(state, "vote", {**body, "unread": True}, by)
    if not found.applied:
        return found
    from planrunner.engine.gates import renewed

    try:
        event = renewed(state, str(body["gate"]), place, weighed)
    except no_value() as error:
        return refused(f"what is asked cannot be shown any more: {error}")
    if event is None:
        return reply(state, "vote", body, by)
    what = ", ".join(event.changed[:5])
    return Reply((event,), False, f"what was shown has changed ({what}): look again", MISMATCH)
