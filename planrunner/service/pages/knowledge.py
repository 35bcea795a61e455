"""What the project knows: notes and claims, the memory, hypotheses of runs, and a digest of what waits and failed."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from planrunner.app.history.digest import DigestRequest, digest
from planrunner.app.history.show import all_rows, look
from planrunner.app.history.state import stored_plan
from planrunner.app.project.knowledge import all_notes, one
from planrunner.app.project.memory import Where, got, opened
from planrunner.errors import NotFound, PlanrunnerError, UsageError
from planrunner.journal.stores import open_journal
from planrunner.knowledge.claims import found
from planrunner.knowledge.notes import FOLDER
from planrunner.service.context import HereProject, HereVisitor, behalf
from planrunner.service.following import HereFollower, framed
from planrunner.views.hypotheses import hypotheses_document
from planrunner.views.page.knowledge import (
    NoteLine,
    digest_lines,
    hypotheses,
    note_line,
    note_page,
    remembered,
)
from planrunner.views.page.links import Tab, query_of
from planrunner.views.page.render import rendered
from planrunner.views.page.runs import run_line

Json = Any

router = APIRouter(prefix="/{project}/knowledge", include_in_schema=False)

LIMIT = 50
"""Entries of a page."""
MOST = 30
"""Runs of a digest that are open, and runs that did not succeed, at most."""
RECENT = 500
"""Runs among which those with hypotheses are looked for."""
LAYERS = (
    ("project", "Project", False),
    ("project-lessons", "Lessons", True),
    ("global", "All projects", False),
)
"""The layers that the page shows: name in the address, word, and whether they are lessons."""
PERIODS = (("day", "24 hours", 86_400.0), ("week", "7 days", 604_800.0), ("month", "30 days", 2_592_000.0))


class Linked(NamedTuple):
    """A line with where it leads."""

    line: Any
    query: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.line, name)


@router.get("", response_class=HTMLResponse)
def notes(
    project: HereProject,
    visitor: HereVisitor,
    follower: HereFollower,
    q: str = "",
    status: str = "",
    note: str = "",
) -> str:
    """Notes and claims of the knowledge base."""
    values: dict[str, Json] = {"problem": "", "lines": [], "note": None, "tabs": [], "total": 0, "query": q}
    try:
        with behalf(visitor, project):
            known = all_notes(FOLDER)
            shown = found(known, q, "", None, [])
            values |= {"note": note_page(one(FOLDER, note)) if note else None, "total": len(known)}
        lines = [note_line(each) for each in shown]
        wanted = [line for line in lines if not status or line.sign.word.lower() == status]
        values |= {"lines": [_linked(line, q, status) for line in wanted], "tabs": _note_tabs(lines, q, status)}
    except UsageError as error:
        values["problem"] = error.message
    frame = framed(follower, project, visitor, "knowledge")
    return rendered("notes.html", frame, heading="Notes and claims", tab="", **values)


def _linked(line: NoteLine, query: str, status: str) -> Linked:
    return Linked(line, query_of(q=query, status=status, note=line.id))


def _note_tabs(lines: list[NoteLine], query: str, status: str) -> list[Tab]:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.sign.word] = counts.get(line.sign.word, 0) + 1
    tabs = [Tab("All", query_of(q=query), not status, len(lines))]
    return [
        *tabs,
        *(Tab(word, query_of(q=query, status=word.lower()), status == word.lower(), n) for word, n in counts.items()),
    ]


@router.get("/memory", response_class=HTMLResponse)
def memory(
    project: HereProject,
    visitor: HereVisitor,
    follower: HereFollower,
    layer: str = "project",
    q: str = "",
    key: str = "",
    skip: int = 0,
) -> str:
    """What is remembered, in one layer of the memory."""
    lessons = next((lessons for name, _, lessons in LAYERS if name == layer), None)
    if lessons is None:
        raise NotFound(f"the page shows no layer `{layer}`", f"it shows {', '.join(name for name, _, _ in LAYERS)}")
    skip = max(0, skip)
    with behalf(visitor, project), opened(Where(layer.partition("-")[0], lessons=lessons)) as store:
        if q.strip():
            hits = store.search(q, "both", LIMIT)
            lines, total = [remembered(hit.entry.as_json(), score=hit.score) for hit in hits], len(hits)
        else:
            entries, total = store.page(limit=LIMIT, offset=skip)
            lines = [remembered(entry.as_json()) for entry in entries]
        entry = remembered(got(store, key).as_json(), whole=True) if key else None
    return rendered(
        "memory.html",
        framed(follower, project, visitor, "knowledge"),
        heading="Memory",
        tab="/memory",
        problem="",
        layer=layer,
        lessons=lessons,
        query=q,
        lines=[Linked(line, query_of(layer=layer, q=q, key=line.key)) for line in lines],
        total=total,
        entry=entry,
        older=query_of(layer=layer, skip=skip + LIMIT) if not q and skip + LIMIT < total else "",
        tabs=[Tab(word, query_of(layer=name), name == layer) for name, word, _ in LAYERS],
        now=time.time(),
    )


@router.get("/hypotheses", response_class=HTMLResponse)
def hypotheses_page(project: HereProject, visitor: HereVisitor, follower: HereFollower, run: str = "") -> str:
    """The hypotheses of a run, and the runs that have any."""
    now = time.time()
    values: dict[str, Json] = {"problem": "", "runs": [], "chosen": "", "lines": [], "title": ""}
    with behalf(visitor, project):
        try:
            known = _with_hypotheses(project.state)
        except NotFound:
            known = []
        chosen = run or (known[0] if known else "")
        if chosen:
            seen = look(chosen, project.state)
            shown = hypotheses(hypotheses_document(seen.state)["hypotheses"])
            title = seen.state.plan.title or seen.state.plan.id
            values |= {"chosen": seen.row.run, "lines": shown, "title": title}
    values["runs"] = [run_line(follower.summaries.one(each), now) for each in known[:LIMIT]]
    frame = framed(follower, project, visitor, "knowledge")
    return rendered("hypotheses.html", frame, heading="Hypotheses", tab="/hypotheses", now=now, **values)


def _with_hypotheses(state: str) -> list[str]:
    """The newest runs whose plans declare hypotheses. Raises NotFound where there is no journal."""
    declares: dict[str, bool] = {}
    runs: list[str] = []
    with closing(open_journal(state, readonly=True)) as journal:
        for count, row in enumerate(all_rows(journal)):
            if count >= RECENT or len(runs) >= LIMIT:
                break
            if row.plan_digest not in declares:
                try:
                    declares[row.plan_digest] = bool(stored_plan(journal, row.plan_digest).hypotheses)
                except PlanrunnerError:
                    declares[row.plan_digest] = False  # what cannot be read shows on the page of its run
            if declares[row.plan_digest]:
                runs.append(row.run)
    return runs


@router.get("/digest", response_class=HTMLResponse)
def digest_page(project: HereProject, visitor: HereVisitor, follower: HereFollower, period: str = "day") -> str:
    """What waits, what failed, what goes on and what was done in a period."""
    now = time.time()
    seconds = next((seconds for name, _, seconds in PERIODS if name == period), PERIODS[0][2])
    heads = list(reversed(follower.summaries.heads()))
    ended = [head for head in heads if head.status and max(head.created, head.ended or 0.0) >= now - seconds]
    named = [head.run for head in heads if not head.status][:MOST]
    named += [head.run for head in ended if head.status != "completed"][:MOST]
    with behalf(visitor, project):
        runs = digest(DigestRequest(now - seconds, tuple(named), project.state)) if named else []
    return rendered(
        "digest.html",
        framed(follower, project, visitor, "knowledge"),
        heading="Digest",
        tab="/digest",
        problem="",
        lines=digest_lines(runs, now),
        more=sum(not head.status for head in heads) + sum(head.status != "completed" for head in ended) - len(named),
        done=Counter(head.plan_id for head in ended if head.status == "completed").most_common(),
        tabs=[Tab(word, query_of(period=name), name == period) for name, word, _ in PERIODS],
        now=now,
    )
