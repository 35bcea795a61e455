"""What requests of other processes come to, votes above all: who may vote, and on what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from msgspec import ValidationError, convert

from planrunner.engine import gates
from planrunner.engine.calls import NO_VALUE, Place
from planrunner.engine.effects import RecheckEvidence
from planrunner.errors import MISMATCH, PlanInvalid, UsageError
from planrunner.journal.records import Request
from planrunner.machine.events import GateReopened
from planrunner.machine.gates import gate_reopened
from planrunner.machine.requests import Reply, Vote, count, has_changed, refused, reply
from planrunner.machine.state import State
from planrunner.safety.project import roles_in, unsound

Json = Any


def looks(state: State, request: Request, place: Place) -> tuple[dict[str, Json], ...]:
    """What of the world has to be looked at before the answer: the evidence of the gate that a vote is for."""
    number = state.index.get(str(request.body.get("gate"))) if request.kind == "vote" else None
    gate = state.tasks[number].gate if number is not None else None
    if number is None or gate is None or not gate.waits:
        return ()
    try:
        return tuple(gates.request(state, number, gate.stage, place).get("looks", ()))
    except NO_VALUE:
        return ()  # which the answer says


def answer(state: State, request: Request, place: Place, now: float, weighed: RecheckEvidence | None = None) -> Reply:
    """What a request comes to at ``now`` (seconds since 1970 on the run's time line); ``weighed`` is what was looked at
    for it already."""
    if not request.ours:
        said = "the request bears no seal of your audit key, so it counts for nothing (`state.foreign`)"
        return Reply(
            (), False, f"{said}: ask with the XDG_DATA_HOME or the PLANRUNNER_AUDIT_KEY_FILE of the run", MISMATCH
        )
    if request.kind != "vote":
        return reply(state, request.kind, request.body, request.by)
    return _vote(state, request, place, now, weighed)


@contextmanager
def _shown_as(state: State, event: GateReopened) -> Iterator[None]:
    """The state with a gate as it asks again, for as long as it is looked at."""
    task_state = state.tasks[state.index[event.task]]
    gate, detail = task_state.gate, task_state.detail
    assert gate is not None, "it waits for people"
    task_state.gate = copy(gate)
    try:
        gate_reopened(state, event, 0.0)
        yield
    finally:
        task_state.gate, task_state.detail = gate, detail


def _vote(state: State, request: Request, place: Place, now: float, weighed: RecheckEvidence | None) -> Reply:
    """A vote counts for the current evidence: if it has changed since it was shown, the gate asks again. Roles are
    those that the project lists; if it lists no people, those that the voter claims."""
    try:
        vote = convert(request.body, Vote)
        by = vote.by or request.by
        roles = roles_in(place.directory, by, vote.roles)
    except ValidationError as error:
        return refused(f"the data of this `vote` is not as it should be: {error}")
    except UsageError as error:
        return refused(error.message)
    except PlanInvalid as error:
        return refused(unsound(error))
    vote = vote._replace(by=by, user=request.by, roles=roles.listed, claimed=roles.claimed)
    verdict = count(state, vote._replace(shown=""), now, unread=True)
    if not verdict.applied:
        return verdict
    missing = () if vote.verdict == "reject" else gates.missing_files(state, vote.gate, place.directory)
    if missing:
        files = " and ".join(f"`{path}`" for path in missing)
        return refused(f"`{vote.gate}` is not done: {files} {'does' if len(missing) == 1 else 'do'} not exist")
    try:
        event = gates.renewed(state, vote.gate, place, weighed)
    except NO_VALUE as error:
        return refused(f"what is asked cannot be shown any more: {error}")
    if event is None:
        return count(state, vote, now)
    if vote.shown and not has_changed(event.shown, vote.shown):  # they read it as it is, before the run did
        with _shown_as(state, event):
            verdict = count(state, vote, now)
        return verdict._replace(events=(event, *verdict.events))
    what = ", ".join(event.changed[:5])
    return Reply((event,), False, f"what was shown has changed ({what}): look again", MISMATCH)
