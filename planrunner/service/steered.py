"""Requests to runs, for a visitor: refusals become problems."""

from __future__ import annotations

from typing import Any

from planrunner.app.runs.control import Steered, steer
from planrunner.errors import NO_PLAN
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.problems import Problem

Json = Any

PATIENCE = 10.0
"""Seconds that the process of a run is given to answer."""


def steered(visitor: Visitor, project: Project, run: str, kind: str, body: dict[str, Json]) -> Steered:
    """Ask something of a run for a visitor; empty values of the body are left out. Raises what ``steer`` raises, and
    Problem where the run refuses: 404 for a task that it does not have, else 409."""
    with behalf(visitor, project):
        found = steer(run, kind, {name: value for name, value in body.items() if value}, project.state, PATIENCE)
    if not found.answer.applied:
        raise Problem(404 if found.answer.code == NO_PLAN else 409, f"run {found.run_id}: {found.answer.message}")
    return found
