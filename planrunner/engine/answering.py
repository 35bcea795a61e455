"""Requests of other processes, answered for the run that is held: with a look at the world where a vote needs one."""

from __future__ import annotations

from planrunner.machine.requests import Reply, refused, reply
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.engine.calls import Place
    from planrunner.journal.records import Request
    from planrunner.machine.state import State


def answer(state: State, request: Request, place: Place, now: float) -> Reply:
    """What a request comes to at ``now`` (seconds since 1970 on the run's time line)."""
    if request.kind != "vote":
        return reply(state, request.kind, request.body, request.by)
    return _weigh(state, request, place, now)


def _weigh(state: State, request: Request, place: Place, now: float) -> Reply:
    """A vote counts for what is there now: what has changed since it was shown is asked anew. Roles are those that the
    project lists, and only where it lists nobody those that the voter claims."""
    from planrunner.engine.gates import renewed  # late: few requests are votes
    from planrunner.errors import MISMATCH, UsageError
    from planrunner.safety.people import read_project

    body = dict(request.body)
    try:
        people = read_project(place.directory).people
    except UsageError as error:
        return refused(error.message)
    by = str(body.get("by") or request.by)
    body.update(by=by, user=request.by, now=now, roles=[], claimed=list(body.get("roles") or ()))
    if people is not None:
        body.update(roles=list(people.get(by, ())), claimed=[])
    found = reply(state, "vote", body, by)
    if not found.applied:
        return found
    event = renewed(state, str(body["gate"]), place)
    if event is None:
        return found
    what = ", ".join(event.changed[:5])
    return Reply((event,), False, f"what was shown has changed ({what}): look again", MISMATCH)
