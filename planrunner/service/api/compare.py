"""Two runs, or two revisions of one, side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from planrunner.app.history.compare import compared_revisions, compared_runs
from planrunner.service.api.answers import Answer, Name, api_router, shaped
from planrunner.service.context import HereProject, HereVisitor, behalf
from planrunner.views.compare import comparison_document, revisions_document

router = api_router("runs")

Number = Annotated[int, Query(ge=1, lt=1 << 20)]


@router.get("/runs/{run}/diff/{other}", responses=shaped("What differs, and from what it follows.", "first", "tasks"))
def diff(visitor: HereVisitor, project: HereProject, run: Name, other: Name) -> Answer:
    """Compare two runs: what went into them, decisions, outcomes, the first difference and what follows from it."""
    with behalf(visitor, project):
        return Answer(comparison_document(compared_runs(run, other, project.state)))


@router.get("/runs/{run}/revisions", responses=shaped("What differs, and what it meant for tasks.", "differences"))
def revisions(visitor: HereVisitor, project: HereProject, run: Name, one: Number = 1, other: Number = 2) -> Answer:
    """Compare two revisions of the plan of a run. `effects` tells what the second meant for each task when it was
    made: `kept`, `again`, `perhaps`, `new`, `asked` or `open`."""
    with behalf(visitor, project):
        return Answer(revisions_document(compared_revisions(run, one, other, project.state)))
