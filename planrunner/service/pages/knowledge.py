"""What the project knows: notes and claims, the memory, hypotheses of runs, and a digest of what waits and failed."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from planrunner.app.history.digest import DigestRequest, digest
from planrunner.app.history.show import look, with_hypotheses
from planrunner.app.project.knowledge import all_notes, one
from planrunner.app.project.memory import Where, got, opened
from planrunner.errors import NotFound, UsageError
from planrunner.knowledge.claims import found
from planrunner.knowledge.notes import FOLDER
from planrunner.service.following import HereReader
from planrunner.views.hypotheses import hypotheses_document
from planrunner.views.page.knowledge import (
    NoteLine,
    digest_lines,
    hypotheses,
    note_line,
    note_page,
    remembered,
)
from planrunner.views.page.render import Tab, query_of, rendered
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


@router.get("", response_class=HTMLResponse)
def notes(here: HereReader, q: str = "", status: str = "", note: str = "") -> str:
    """Notes and claims of the knowledge base."""
    values: dict[str, Json] = {"problem": "", "lines": [], "note": None, "tabs": [], "total": 0, "query": q}
    try:
        with here.behalf():
            known = all_notes(FOLDER)
            shown = found(known, q, "", None, [])
            values |= {"note": note_page(one(FOLDER, note)) if note else None, "total": len(known)}
        lines = [note_line(each) for each in shown]
        wanted = [line for line in lines if not status or line.sign.word.lower() == status]
        values |= {
            "lines": [line._replace(query=query_of(q=q, status=status, note=line.id)) for line in wanted],
            "tabs": _note_tabs(lines, q, status),
        }
    except UsageError as error:
        values["problem"] = error.message
    frame = here.frame("knowledge")
    return rendered("notes.html", frame, heading="Notes and claims", tab="", **values)


def _note_tabs(lines: list[NoteLine], query: str, status: str) -> list[Tab]:
    counts = Counter(line.sign.word for line in lines)
    words = [(word, word.lower(), number) for word, number in counts.items()]
    return [
        Tab(word, query_of(q=query, status=name), status == name, number)
        for word, name, number in (("All", "", len(lines)), *words)
    ]


@router.get("/memory", response_class=HTMLResponse)
def memory(here: HereReader, layer: str = "project", q: str = "", key: str = "", skip: int = 0) -> str:
    """What is remembered, in one layer of the memory."""
    lessons = next((lessons for name, _, lessons in LAYERS if name == layer), None)
    if lessons is None:
        raise NotFound(f"the page shows no layer `{layer}`", f"it shows {', '.join(name for name, _, _ in LAYERS)}")
    skip = max(0, skip)
    with here.behalf(), opened(Where(layer.partition("-")[0], lessons=lessons)) as store:
        if q.strip():
            hits = store.search(q, "both", LIMIT)
            lines, total = [remembered(hit.entry.as_json(), score=hit.score) for hit in hits], len(hits)
        else:
            entries, total = store.page(limit=LIMIT, offset=skip)
            lines = [remembered(entry.as_json()) for entry in entries]
        entry = remembered(got(store, key).as_json(), whole=True) if key else None
    return rendered(
        "memory.html",
        here.frame("knowledge"),
        heading="Memory",
        tab="/memory",
        problem="",
        layer=layer,
        lessons=lessons,
        query=q,
        lines=[line._replace(query=query_of(layer=layer, q=q, key=line.key)) for line in lines],
        total=total,
        entry=entry,
        older=query_of(layer=layer, skip=skip + LIMIT) if not q and skip + LIMIT < total else "",
        tabs=[Tab(word, query_of(layer=name), name == layer) for name, word, _ in LAYERS],
        now=time.time(),
    )


@router.get("/hypotheses", response_class=HTMLResponse)
def hypotheses_page(here: HereReader, run: str = "") -> str:
    """The hypotheses of a run, and the runs that have any."""
    now = time.time()
    values: dict[str, Json] = {"problem": "", "runs": [], "chosen": "", "lines": [], "title": ""}
    with here.behalf():
        known = with_hypotheses(reversed(here.follower.summaries.heads()[-RECENT:]), LIMIT)
        chosen = run or (known[0] if known else "")
        if chosen:
            seen = look(chosen, here.project.state)
            shown = hypotheses(hypotheses_document(seen.state)["hypotheses"])
            title = seen.state.plan.title or seen.state.plan.id
            values |= {"chosen": seen.row.run, "lines": shown, "title": title}
    values["runs"] = [run_line(here.follower.summaries.one(each), now) for each in known]
    frame = here.frame("knowledge")
    return rendered("hypotheses.html", frame, heading="Hypotheses", tab="/hypotheses", now=now, **values)


@router.get("/digest", response_class=HTMLResponse)
def digest_page(here: HereReader, period: str = "day") -> str:
    """What waits, what failed, what goes on and what was done in a period."""
    now = time.time()
    seconds = next((seconds for name, _, seconds in PERIODS if name == period), PERIODS[0][2])
    heads = list(reversed(here.follower.summaries.heads()))
    ended = [head for head in heads if head.status and max(head.created, head.ended or 0.0) >= now - seconds]
    named = [head.run for head in heads if not head.status][:MOST]
    named += [head.run for head in ended if head.status != "completed"][:MOST]
    with here.behalf():
        runs = digest(DigestRequest(now - seconds, tuple(named), here.project.state)) if named else []
    return rendered(
        "digest.html",
        here.frame("knowledge"),
        heading="Digest",
        tab="/digest",
        problem="",
        lines=digest_lines(runs, now),
        more=sum(not head.status for head in heads) + sum(head.status != "completed" for head in ended) - len(named),
        done=Counter(head.plan_id for head in ended if head.status == "completed").most_common(),
        tabs=[Tab(word, query_of(period=name), name == period) for name, word, _ in PERIODS],
        now=now,
    )
