"""Which runs of a journal and which entries of a run somebody wants to see, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from planrunner.errors import NotFound, UsageError
from planrunner.journal.codec import event_types
from planrunner.journal.records import RunRow
from planrunner.machine.events import Entry
from planrunner.plan.nearest import nearest

STATUSES = ("running", "paused", "blocked", "completed", "failed", "cancelled")
"""How a run may stand."""
PLACES = ("/", "#", "[", "@")
"""What follows the path of a task in the path of one that it holds."""


class RunQuery(NamedTuple):
    """Runs that stand as ``status``, of the plan with the id ``plan``, begun from ``since`` on and before ``until``
    (seconds since 1970); what is None or empty asks for nothing. ``skip`` of them are left out, then ``limit`` come."""

    status: str | None = None
    plan: str = ""
    since: float | None = None
    until: float | None = None
    limit: int = 20
    skip: int = 0

    def begun_then(self, row: RunRow) -> bool:
        """Whether a run fits all but its status, which costs a look at its last entry."""
        return (
            (not self.plan or row.plan_id == self.plan)
            and (self.since is None or row.created >= self.since)
            and (self.until is None or row.created < self.until)
        )


class EntryQuery(NamedTuple):
    """Entries of these ``types`` (``attempt_ended`` …), about ``task`` or one that it holds, after the entry with the
    number ``after``; ``limit`` of them at most (None: all)."""

    types: tuple[str, ...] = ()
    task: str = ""
    after: int = 0
    limit: int | None = None


def wanted(query: EntryQuery, entries: Iterable[tuple[RunRow, Entry]]) -> Iterator[tuple[RunRow, Entry]]:
    """Those of the entries that a query asks for. Raises UsageError for a type that no event has, and, once all
    entries were seen, NotFound for a task that none of them is about."""
    return islice(_matching(query, _kinds(query.types), entries), query.limit)


def _matching(
    query: EntryQuery, kinds: frozenset[type], entries: Iterable[tuple[RunRow, Entry]]
) -> Iterator[tuple[RunRow, Entry]]:
    about: dict[str, bool] = {}
    for row, entry in entries:
        event = entry.event
        tasks = _tasks(event)
        for task in tasks:
            if task not in about:
                about[task] = not query.task or _is_part(task, query.task)
        fits = not kinds or type(event) in kinds
        if entry.seq > query.after and fits and (not query.task or any(about[task] for task in tasks)):
            yield row, entry
    if query.task and not any(about.values()):
        near = nearest(query.task, about)
        raise NotFound(
            f"no entry is about a task `{query.task}`",
            f"did you mean `{near}`?" if near else "`planrunner show --all` lists the tasks",
        )


def _tasks(event: object) -> tuple[str, ...]:
    """The tasks that an event is about."""
    one = getattr(event, "task", "")
    return (one,) if one else tuple(getattr(event, "tasks", ()))


def _is_part(path: str, task: str) -> bool:
    """Whether a path is that of the task, of one that it holds, or of a task of that name somewhere inside others."""
    inner = f"/{path}"
    at = inner.find(f"/{task}")
    while at >= 0:
        end = at + len(task) + 1
        if end == len(inner) or inner[end] in PLACES:
            return True
        at = inner.find(f"/{task}", at + 1)
    return False


def _kinds(names: Iterable[str]) -> frozenset[type]:
    """The classes of events by their types."""
    known = event_types()
    for name in names:
        if name not in known:
            raise UsageError(f"no event has the type `{name}`", _meant(name, known))
    return frozenset(known[name] for name in names)


def _meant(name: str, known: Iterable[str]) -> str:
    """The nearest type; else those that share a word with the name, of which one is about the same thing."""
    near = nearest(name, known)
    if near:
        return f"did you mean `{near}`?"
    words = set(name.lower().replace("-", "_").split("_"))
    alike = [kind for kind in sorted(known) if words & set(kind.split("_"))]
    if alike:
        return f"did you mean one of {', '.join(f'`{kind}`' for kind in alike[:8])}?"
    return "`planrunner events last` shows the type of each entry, as in `attempt_ended`"
