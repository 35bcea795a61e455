"""Budgets of a run burning down: what is used of each limit, the curve of it, and what can still come."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.machine.budgets import limit_of
from planrunner.machine.ledger import amount
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.views.page.figures import amount_text
from planrunner.views.page.scale import Scale
from planrunner.views.page.story import Story
from planrunner.views.run import budget_object

WARN = 0.8
"""The share of a limit from which a budget draws attention."""
HEIGHT = 36.0
POINTS = 120
"""Points of a curve at most."""


class Budget(Struct):
    """One budget. ``used`` and ``limit`` are texts (``limit`` empty without one), ``said`` what can still come,
    ``tone`` the state that colours it. ``curve`` are the points of a polyline on 100 by 36, empty where nothing is
    known; ``figure`` is its place in what a moment of the scrubber has spent, -1 for time."""

    what: str
    name: str
    used: str
    limit: str
    said: str
    tone: str
    curve: str
    figure: int


_NAMES = {"cost": "Cost", "tokens": "Tokens", "calls": "Calls", "attempts": "Attempts", "time": "Time"}
_FIGURES = {"cost": 0, "tokens": 1, "calls": 2, "attempts": 3}


def budgets(story: Story, scale: Scale, now: float) -> list[Budget]:
    """The budgets of a run: what has a limit, and what was used of cost and tokens where there is none."""
    state = story.state
    used = budget_object(state, now)
    wanted = [
        what
        for what in _NAMES
        if what in used and (used[what]["limit"] is not None or (what in ("cost", "tokens") and used[what]["used"]))
    ]
    return [_budget(story, what, used[what], scale, now) for what in wanted]


def _budget(story: Story, what: str, found: dict[str, float | None], scale: Scale, now: float) -> Budget:
    used, limit = found["used"] or 0.0, found["limit"]
    share = used / limit if limit else 0.0
    tone = "" if not limit or share < WARN else "bad" if share >= 1 else "wait"
    curve = _curve(_values(story, what, used, now), limit or used, scale)
    text = amount_text(what, limit) if limit is not None else ""
    said, figure = _said(story, what, found), _FIGURES.get(what, -1)
    return Budget(what, _NAMES[what], amount_text(what, used), text, said, tone, curve, figure)


def _said(story: Story, what: str, found: dict[str, float | None]) -> str:
    state, limit = story.state, found["limit"]
    if limit is None:
        return "no limit"
    left = max(0.0, limit - (found["used"] or 0.0))
    if state.ended_at is not None:
        return f"{amount_text(what, left)} left at the end"
    if what == "time":
        return "does not count while the run is paused"
    if aside := found.get("reserved"):
        return f"{amount_text(what, aside)} set aside, {amount_text(what, max(0.0, left - aside))} free"
    coming = _coming(state, what)
    if coming is None:
        return f"{amount_text(what, left)} left"
    return f"at most {amount_text(what, coming)} more: {'fits' if coming <= left else 'may not fit'}"


def _coming(state: State, what: str) -> float | None:
    """The most that tasks of the plan which are not settled may use by their own limits; None where one has none."""
    if state.containers or what == "attempts":
        return None
    total = 0
    for number, task in enumerate(state.specs):
        if state.tasks[number].dependency_outcome or what not in state.trait(task).spends:
            continue
        own = limit_of(state, number, what)
        if own is None:
            return None
        total += own
    return float(amount(what, total))


def _values(story: Story, what: str, used: float, now: float) -> Iterable[tuple[float, float]]:
    """Moments, each with what was used from there on."""
    if what == "time":
        return _time_values(story, now)
    steps = [(at, float(spent[_FIGURES[what]])) for at, spent in story.spending]
    return [(story.began, 0.0), *steps, (now, used)]


def _time_values(story: Story, now: float) -> Iterable[tuple[float, float]]:
    """Time counts while a process acts on the run."""
    values, active, since = [(story.began, 0.0)], 0.0, story.began
    for start, end in story.rests:
        active += start - since
        values += [(start, active), (end if end is not None else now, active)]
        since = end if end is not None else now
    end = story.state.ended_at or now
    return [*values, (end, active + max(0.0, end - since))]


def _curve(values: Iterable[tuple[float, float]], most: float, scale: Scale) -> str:
    if most <= 0:
        return ""
    points: list[str] = []
    before = None
    every = list(values)
    step = max(1, len(every) // POINTS)
    for at, (moment, value) in enumerate(every):
        if at % step and at < len(every) - 1:
            continue
        x, y = scale.at(moment), HEIGHT * (1 - min(1.0, value / most))
        if before is not None and y != before:
            points.append(f"{x:.1f},{before:.1f}")
        points.append(f"{x:.1f},{y:.1f}")
        before = y
    return " ".join(points)
