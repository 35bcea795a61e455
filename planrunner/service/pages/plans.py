"""The plans of a project: what lint says of each, and how its last run ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from planrunner.app.follow.summaries import RunFilter, Summaries
from planrunner.app.plans.listing import checked, project_files
from planrunner.service.following import HereReader
from planrunner.service.plans import checking
from planrunner.views.page.plans import LastRun, PlanRow, plan_lines, tabs
from planrunner.views.page.render import query_of, rendered
from planrunner.views.page.signs import run_sign

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)

PAGE = 50
"""Plans on one page of the list."""


@router.get("/plans", response_class=HTMLResponse)
def plans(
    here: HereReader,
    q: Annotated[str, Query(max_length=200)] = "",
    findings: Annotated[str, Query(max_length=20)] = "",
    after: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> HTMLResponse:
    """The plans of the project, by path."""
    with here.behalf(), checking():
        files = project_files()
        rows = checked(files)
    words = q.casefold().split()
    fitting = [row for row in rows if all(word in f"{row.title} {row.id} {row.path}".casefold() for word in words)]
    shown = [row for row in fitting if _has(row, findings)]
    listed = shown[after : after + PAGE]
    lines = plan_lines(listed, last_runs(here.follower.summaries, [row.id for row in listed]))
    more = len(shown) > after + PAGE
    page = rendered(
        "plans.html",
        here.frame("plans"),
        rows=lines,
        total=len(files),
        query=q,
        filtered=bool(findings),
        tabs=tabs(fitting, q, findings),
        older=query_of(q=q, findings=findings, after=after + PAGE) if more else "",
        may_edit="run" in here.visitor.scopes,
        pending=not all(row.checked for row in rows),
        now=time.time(),
    )
    return HTMLResponse(page)


def _has(row: PlanRow, findings: str) -> bool:
    if findings == "errors":
        return bool(row.errors)
    return bool(row.warnings) and not row.errors if findings == "warnings" else True


def last_runs(summaries: Summaries, plans: Sequence[str]) -> dict[str, LastRun]:
    """The newest run of each plan that has one, by the id of the plan."""
    counts = summaries.plans()
    found = {}
    for plan in plans:
        newest = summaries.page(RunFilter(plan=plan), 1).runs if counts.get(plan) else ()
        for run in newest:
            found[plan] = LastRun(run.run, run_sign(run.status, run.reason), run.created, counts[plan])
    return found
