"""The page of one run: everything its templates show, made from the story of the run and nothing else.

The same parts stand in the report, which is a file: whatever is read from outside (logs, what a retry would do, who may
act) comes in as a value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.machine.compensation import outstanding
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.views.containers import end_text, progress_text
from planrunner.views.page.agent import Agent, agents
from planrunner.views.page.budgets import Budget, budgets
from planrunner.views.page.drawer import Drawer, Kept, Logs, drawer, kept_artifacts, no_logs
from planrunner.views.page.figures import amount_text, count, duration, moment
from planrunner.views.page.graph import CELLS, Cell, Coloured, Picture, Skeleton, picture
from planrunner.views.page.outline import Row, outline, row_of
from planrunner.views.page.scale import Scale
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import CALM, Made, Moment, Story, owner_of
from planrunner.views.page.timeline import Lane, busy, critical_path, lanes, path_text
from planrunner.views.page.trouble import Trouble, from_directory, troubles
from planrunner.views.page.verdict import Verdict, verdict
from planrunner.views.status import ORDER, shown_counts

Json = Any

MOMENTS = 1_000
"""Moments that a page embeds; of more those that people ask for are kept, and the rest evenly."""
EVENTS = 400
"""Events that the list on the page shows; the last ones, unless a moment is asked for."""
DRAWERS = 60
"""Drawers that come with the page; others are fetched when their task is chosen."""
WHOLE = 5_000
"""The same for a page that stands alone."""


class Permit(Struct):
    """What the person who looks may do; ``barred`` says why they may not decide the gate that the run waits at."""

    run: bool = False
    decide: bool = False
    barred: str = ""


class Given(Struct):
    """What a page is made from. ``now`` is on the time line of the run; ``leased`` says that a process acts on it.
    ``logs`` reads the end of the log of an attempt. ``retry`` is what a retry would do, as ``Stale`` of the use case
    has it, None where there is nothing to retry. ``at`` is the entry to show the run at (None: the last one),
    ``chosen`` the place whose drawer is open. ``whole`` unfolds all rows, ``alone`` makes a page that fetches
    nothing."""

    story: Story
    now: float
    leased: bool = False
    source: Source | None = None
    logs: Logs = no_logs
    retry: Mapping[str, Json] | None = None
    permit: Permit = Permit()
    at: int | None = None
    chosen: str = ""
    whole: bool = False
    alone: bool = False


class RunPage(Struct):
    """What was ``given``, and the parts of the page in the order in which it shows them."""

    given: Given
    run: str
    plan_id: str
    title: str
    file: str
    digest: str
    facts: tuple[tuple[str, str], ...]
    params: str
    verdict: Verdict
    ended: bool
    past: Moment | None
    position: int
    moments: tuple[Moment, ...]
    picture: Picture
    legend: tuple[tuple[Sign, int], ...]
    lanes: tuple[Lane, ...]
    scale: Scale
    budgets: tuple[Budget, ...]
    path: str
    troubles: tuple[Trouble, ...]
    more_troubles: int
    agents: tuple[Agent, ...]
    drawers: tuple[Drawer, ...]
    chosen: str
    hidden: int
    seq: int
    began: float
    undo: tuple[str, ...]
    statuses: Mapping[str, str]
    current: Mapping[str, str]
    listed: tuple[Moment, ...]
    ready: frozenset[str]
    known: frozenset[str]
    """The places that have an element on the page."""
    rows: frozenset[str]

    def home(self, place: str) -> str:
        """The place whose drawer tells of a place: itself, or what holds it while it has not begun."""
        while place and place not in self.rows:
            place = owner_of(place)
        return place

    def later(self, seq: int) -> bool:
        """Whether what an entry made known is hidden at the moment that is shown."""
        return self.past is not None and seq > self.past.seq

    def sign(self, place: str) -> Sign:
        """The sign of a place at the moment that is shown."""
        return task_sign(self.statuses.get(place, "pending"))

    def used(self, budget: Budget) -> str:
        """What was used of a budget at the moment that is shown."""
        if self.past is None or budget.figure < 0:
            return budget.used
        return amount_text(budget.what, self.past.spent[budget.figure])

    @property
    def kept(self) -> list[Kept]:
        """The artifacts that the plan names, as far as tasks have kept them."""
        outcomes = [task.outcome for task in self.given.story.state.tasks if task.outcome is not None]
        return [one for outcome in outcomes for one in kept_artifacts(outcome.artifacts) if one.file]

    @property
    def said(self) -> Moment | None:
        """The moment that is shown."""
        return self.past or (self.moments[-1] if self.moments else None)

    def x(self, at: float) -> float:
        """A moment in time in percent of the width."""
        return self.scale.at(at)


def run_page(given: Given) -> RunPage:
    """The page of a run."""
    story, state, now = given.story, given.story.state, given.now
    rows = story.once(f"rows {given.whole}", lambda: outline(story, given.whole))
    end = max(story.last, now) if state.ended_at is None else state.ended_at
    settled = story.once if state.ended_at is not None else _made  # of a run that goes on this changes with the time
    scale = settled("scale", lambda: Scale(story.began, end, busy(story, end)))
    moments = story.once("moments", lambda: list(story.told(_moments(story))))
    past = next(story.told(_past(story.moments, given.at)), None)
    drawing = story.once(f"picture {given.whole}", lambda: _picture(story, given.whole))
    failed, more = story.once("troubles", lambda: troubles(story, given.source, given.logs))
    chosen = given.chosen or _chosen(story, rows, failed)
    drawers = _drawers(given, rows, chosen, end)
    return RunPage(
        given=given,
        run=state.run_id,
        plan_id=state.plan.id,
        title=harmless(state.plan.title or state.plan.id),
        file=from_directory(state, str(state.environment.get("plan") or "")),
        digest=state.plan_digest,
        facts=tuple(_facts(story, now)),
        params=" ".join(f"{name}={harmless(as_text(value, 80))}" for name, value in state.params.items()),
        verdict=verdict(state, now, given.leased),
        ended=state.ended_at is not None,
        past=past,
        position=_position(moments, past),
        moments=tuple(moments),
        picture=drawing,
        legend=tuple(story.once("legend", lambda: _legend(state))),
        lanes=settled(f"lanes {given.whole}", lambda: tuple(lanes(story, rows, scale, end))),
        scale=scale,
        budgets=settled("budgets", lambda: tuple(budgets(story, scale, end))),
        path=story.once("path", lambda: path_text(story)),
        troubles=tuple(failed),
        more_troubles=more,
        agents=tuple(story.once("agents", lambda: agents(story))),
        drawers=tuple(drawers),
        chosen=chosen,
        hidden=sum(1 for row in rows if not row.tasks),
        seq=story.seq,
        began=story.began,
        undo=tuple(story.once("undo", lambda: _undo(state))),
        statuses=story.statuses if past is None else story.status_at(past.seq),
        current=story.statuses,
        listed=tuple(story.told(_listed(story.moments, past))),
        ready=frozenset(each.place for each in drawers),
        known=frozenset(_known(rows, drawing, drawers)),
        rows=frozenset(row.place for row in rows if row.tasks) | frozenset(story.statuses),
    )


def _made(name: str, make: Callable[[], Made]) -> Made:
    return make()


def _known(rows: Sequence[Row], drawing: Picture, drawers: Sequence[Drawer]) -> Iterator[str]:
    yield from (row.place for row in rows if row.tasks)
    for node in drawing.nodes:
        yield node.place
        yield from (cell.place for cell in node.cells)
    for each in drawers:
        yield each.place
        yield from (item.place for item in each.items)


def embedded_data(page: RunPage) -> Json:
    """What the script of the page reads. ``signs`` are those of statuses by number, ``none`` that of a place that has
    not begun. A moment is seq, seconds since 1970, place on the time axis, sentence, changes and what was spent.
    ``now`` is what differs since, as no process acts on the run; ``zone`` are the seconds by which clocks here are
    ahead of UTC."""
    signs: dict[str, int] = {}
    moments = []
    state: dict[str, str] = {}
    for each in page.moments:
        state.update(each.changes)
        changes = {
            place: signs.setdefault(status, len(signs)) for place, status in each.changes.items() if place in page.known
        }
        spent = each.spent
        figures = [round(spent.cost, 6), spent.tokens, spent.calls, spent.attempts]
        moments.append([each.seq, round(each.at, 3), page.x(each.at), each.text, changes, figures])
    differs = {
        place: status
        for place, status in page.current.items()
        if place in page.known and state.get(place, "pending") != status
    }
    now = {place: signs.setdefault(status, len(signs)) for place, status in differs.items()}
    table = [list(task_sign(status)) for status in signs]
    zone = time.localtime(page.given.now).tm_gmtoff
    return {"signs": table, "none": list(task_sign("pending")), "moments": moments, "now": now, "zone": zone}


def _facts(story: Story, now: float) -> list[tuple[str, str]]:
    state = story.state
    by = str(state.environment.get("by") or state.environment.get("user") or "")
    facts = [("Started", moment(story.began, now) + (f" by {by}" if by else ""))]
    active = state.spent_time(now)
    waited = (state.ended_at or now) - story.began - active
    took = duration(active) + (f", waited {duration(waited)}" if waited > 1 and waited > active / 10 else "")
    facts.append(("Took" if state.ended_at is not None else "Active", took))
    if state.revision > 1:
        facts.append(("Revision", str(state.revision)))
    if state.environment.get("deployment"):
        facts.append(("Deployment", harmless(as_text(state.environment["deployment"], 80))))
    return facts


def _moments(story: Story) -> list[Moment]:
    """The moments that the page embeds. What is left out adds its changes to the next one that is kept."""
    every = story.moments
    if len(every) <= MOMENTS:
        return list(every)
    step = -(-len(every) // (MOMENTS // 2))
    kept, begin = [], 0
    for at in sorted({*story.loud[: MOMENTS // 2], *range(0, len(every), step), len(every) - 1}):
        changes: dict[str, str] = {}
        for each in every[begin : at + 1]:
            changes.update(each.changes)
        kept.append(every[at]._replace(changes=changes))
        begin = at + 1
    return kept


def _past(moments: Sequence[Moment], at: int | None) -> Sequence[Moment]:
    """The last moment up to an entry; nothing where that is the last of all."""
    if at is None or not moments or at >= moments[-1].seq:
        return ()
    return (next((each for each in reversed(moments) if each.seq <= at), moments[0]),)


def _position(moments: Sequence[Moment], past: Moment | None) -> int:
    if past is None:
        return max(0, len(moments) - 1)
    return max(0, sum(1 for each in moments if each.seq <= past.seq) - 1)


def _undo(state: State) -> list[str]:
    """The tasks that a rollback of the run would undo, in its order."""
    log = state.compensation_log
    return [] if log is None else [state.specs[log.steps[at].number].id for at in outstanding(state)]


def _listed(moments: Sequence[Moment], past: Moment | None) -> Sequence[Moment]:
    """The events of the list, around the moment that is shown."""
    if len(moments) <= EVENTS:
        return moments
    last = len(moments) if past is None else sum(1 for each in moments if each.seq <= past.seq) + EVENTS // 2
    return moments[max(0, min(last, len(moments)) - EVENTS) : last]


def _legend(state: State) -> list[tuple[Sign, int]]:
    counts = shown_counts(state)
    return [(task_sign(status), counts[status]) for status in ORDER if counts.get(status)]


def _picture(story: Story, whole: bool) -> Picture:
    run = Coloured(story.statuses, partial(_note, story), partial(_items, story), critical_path(story), _backs(story))
    return picture(story.of_plan(Skeleton), run, whole)


def _note(story: Story, place: str) -> tuple[str, int]:
    """What stands below the name of a node: how long it took, or how far it is; and the entry since which it holds."""
    for number in reversed(story.numbers.get(place, ())):
        if story.state.tasks[number].frame.kind != "items" and (text := _note_text(story, number)):
            pieces = story.pieces.get(story.state.specs[number].id, ())
            known = max((piece.until or piece.seq for piece in pieces), default=0)
            if story.state.tasks[number].ended is not None:
                known = max(
                    known, story.changed.get(place, 0)
                )  # until then the node is shown at work, without its time
            return text, known
    return "", 0


def _note_text(story: Story, number: int) -> str:
    state, task = story.state, story.state.tasks[number]
    text = ""
    if task.status == "omitted":
        text = "not run"
    elif task.gate is not None and task.gate.opened and state.specs[number].gate is not None:
        gate = task.gate
        text = ", ".join(gate.by) or (f"{len(gate.votes)} of {gate.need}" if gate.need > 1 else "")
    elif task.status in ("running", "blocked") and task.inner is not None:
        text = progress_text(state, task.inner)
    elif task.inner is not None and task.inner.kind == "items" and task.inner.size > CELLS:
        text = end_text(state, task.inner)
    elif task.started is not None and task.ended is not None:
        pieces = story.pieces.get(state.specs[number].id, ())
        text = duration(sum(piece.lasted(story.last) for piece in pieces if piece.kind in ("attempt", "span")))
        tries = task.attempts - task.past
        text += f" · {tries} attempts" if tries > 1 else ""
    if task.visit > 1:
        text += f"{' · ' if text else ''}visit {task.visit}"
    return text


def _items(story: Story, place: str) -> list[Cell]:
    """The items of a fan-out that is small enough to show them."""
    for number in reversed(story.numbers.get(place, ())):
        frame = story.state.tasks[number].inner
        if frame is not None and frame.kind == "items" and frame.size <= CELLS:
            places = story.places[frame.first : frame.first + frame.size]
            return [Cell(each, task_sign(story.statuses.get(each, "pending"))) for each in places]
    return []


def _backs(story: Story) -> dict[tuple[str, str], tuple[str, int]]:
    return {pair: (f"sent back {count(times, 'time')}", known) for pair, (times, known) in story.backs.items()}


def _chosen(story: Story, rows: Sequence[Row], failed: Sequence[Trouble]) -> str:
    """The place whose drawer is open at first: what waits for people, failed or runs; else the last one of the run."""
    by_status: dict[str, str] = {}
    for row in rows:
        if row.tasks:
            by_status.setdefault(story.statuses.get(row.place, "pending"), row.place)
    for status in ("blocked", "in_doubt"):
        if status in by_status:
            return by_status[status]
    if failed:
        return failed[0].place
    for status in ("failed", "running", "retrying", "paused"):
        if status in by_status:
            return by_status[status]
    return next((row.place for row in rows if row.tasks), "")


def _drawers(given: Given, rows: Sequence[Row], chosen: str, end: float) -> list[Drawer]:
    """The drawers that come with the page: of a small run all, else those that need a look."""
    held = [row for row in rows if row.tasks]
    if chosen and all(row.place != chosen for row in held) and (other := row_of(given.story, chosen)) is not None:
        held.append(other)
    most = WHOLE if given.alone else DRAWERS
    if len(held) > most:
        held.sort(key=lambda row: (row.place != chosen, given.story.statuses.get(row.place, "pending") in CALM))
        order = {row.place: at for at, row in enumerate(rows)}
        held = sorted(held[:most], key=lambda row: order.get(row.place, len(order)))
    return [drawer(given.story, row, given.logs, end) for row in held]
