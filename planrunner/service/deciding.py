"""What people say at gates, through the API and through the page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from planrunner.app.history.show import look
from planrunner.app.people.gates import Voted, vote
from planrunner.errors import DENIED, MISMATCH
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.problems import Problem
from planrunner.views.gates import waiting_budgets

Json = Any


class Ballot(NamedTuple):
    """What is said at a gate. ``verdict`` is approve or reject; ``shown`` the digest of what was looked at, or its
    beginning; ``add`` extends a budget, by what to how much (dollars, seconds, counts)."""

    verdict: str
    shown: str = ""
    reason: str = ""
    choice: str = ""
    fields: dict[str, Json] = {}
    rework: bool = False
    add: dict[str, float] = {}
    roles: Sequence[str] = ()


def decide(visitor: Visitor, project: Project, run: str, gate: str, ballot: Ballot) -> list[Voted]:
    """Vote at a gate for the visitor, whose name and roles are those of the token: a request cannot claim others.

    Raises what ``vote`` raises, and Problem where the vote was refused: 409 for a gate that is decided or shows another
    thing, 403 for a person who may not decide it.
    """
    if ballot.roles and visitor.token:
        raise Problem(403, "roles are those of the token", "leave `roles` out")
    body = {
        "verdict": ballot.verdict,
        "shown": ballot.shown,
        "reason": ballot.reason,
        "choice": ballot.choice,
        "fields": ballot.fields,
        "rework": ballot.rework,
        "add": ballot.add,
        "roles": [*(ballot.roles or visitor.principal.roles)],
    }
    with behalf(visitor, project):
        if not ballot.shown:
            _require_budget(project, run, gate)
        voted = vote(run, gate, {name: value for name, value in body.items() if value}, project.state)
    refused = next((one for one in voted if not one.steered.answer.applied), None)
    if refused is not None:
        answer = refused.steered.answer
        status = 403 if answer.code == DENIED else 409
        hint = "look at the gate again" if answer.code == MISMATCH else ""
        raise Problem(status, f"run {refused.steered.run_id}: {answer.message}", hint)
    return voted


def _require_budget(project: Project, run: str, gate: str) -> None:
    """Only a budget is decided by its name alone. Raises Problem for anything else."""
    state = look(run, project.state).state
    limits = waiting_budgets(state, time.time())
    if not any(gate in (limit.name, *limit.tasks) for limit in limits) or gate in state.index:
        raise Problem(422, "`shown` is missing: the digest of what the gate showed", "look at the gate: it has `shown`")
