"""The list of runs, and the way to a run, a plan or a gate by its name."""

from __future__ import annotations

import os
import time

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse

from planrunner.app.follow.summaries import RunFilter, Summaries
from planrunner.plan.names import plan_paths
from planrunner.service.following import HereReader
from planrunner.views.page.inbox import address_of
from planrunner.views.page.render import Tab, query_of, rendered
from planrunner.views.page.runs import read_filter, run_line
from planrunner.views.page.signs import run_sign

router = APIRouter(prefix="/{project}", include_in_schema=False)

LIMIT = 25
"""Runs of a page."""


@router.get("/runs", response_class=HTMLResponse)
def runs(here: HereReader, q: str = "", plan: str = "", after: int = 0) -> str:
    """The runs of a project, the newest first. ``plan`` is a plan by its id, as other pages link to its runs."""
    q = f"{q} plan:{plan}".strip() if plan else q
    wanted, now = read_filter(q), time.time()
    asked = RunFilter(wanted.status, wanted.plan, wanted.by, wanted.text, doubt=wanted.doubt)
    page = here.follower.summaries.page(asked, LIMIT, after or None)
    counts = here.follower.summaries.counts()
    return rendered(
        "runs.html",
        here.frame("runs"),
        lines=[run_line(each, now) for each in page.runs],
        tabs=_tabs(counts, q),
        query=q,
        problem=wanted.problem or here.follower.problem,
        again=query_of(q=q),
        older=query_of(q=q, after=page.after) if page.after else "",
        first=not after,
        total=sum(counts.values()),
        now=now,
    )


def _tabs(counts: dict[str, int], query: str) -> list[Tab]:
    named = [("Running", "status:running", "running"), ("Waiting", "status:waiting", "blocked")]
    named += [("Failed", "status:failed", "failed"), ("Completed", "status:completed", "completed")]
    tabs = [Tab("All", "", not query, sum(counts.values()))]
    for word, asked, status in named:
        sign = run_sign(status)
        tabs.append(Tab(word, query_of(q=asked), query == asked, counts.get(status, 0), sign.icon, sign.state))
    return tabs


@router.get("/go", response_class=RedirectResponse)
def go(here: HereReader, q: str = "") -> RedirectResponse:
    """The page of what a name means: a run by its id or a part of it, a plan by its file, a gate that waits; the runs
    that the words fit where it is something else."""
    plans = [os.path.relpath(path, here.project.root) for path in plan_paths(here.project.root)]
    return RedirectResponse(f"/{here.project.name}{place_of(q.strip(), here.follower.summaries, plans)}", 303)


def place_of(name: str, summaries: Summaries, plans: list[str]) -> str:
    """Where the page shows what a name means, below the address of the project."""
    if not name:
        return "/runs"
    if name == "last":
        newest = summaries.page(limit=1).runs
        return f"/runs/{newest[0].run}" if newest else "/runs"
    if name in plans or ((alike := [path for path in plans if _is_plan(path, name)]) and len(alike) == 1):
        return f"/plans/{name if name in plans else alike[0]}"
    waiting = [
        address_of(run.run, name) for run in summaries.waiting() for question in run.questions if question.name == name
    ]
    if len(waiting) == 1:
        return waiting[0]
    matching = summaries.page(RunFilter(text=name), 2).runs
    if len(matching) == 1 and name in matching[0].run:
        return f"/runs/{matching[0].run}"
    return f"/runs{query_of(q=name)}"


def _is_plan(path: str, name: str) -> bool:
    last = path.rpartition("/")[2]
    return name in (last, last.partition(".")[0]) or path.endswith(f"/{name}")
