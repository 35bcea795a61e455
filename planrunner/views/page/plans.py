"""The list of plans: what lint says of each, and how its last run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planrunner.escapes import harmless
from planrunner.records import Struct
from planrunner.views.page.figures import count
from planrunner.views.page.render import Tab, query_of
from planrunner.views.page.signs import Sign


class PlanRow(Struct):
    """A plan with what lint says. ``path`` is that below the project, ``changed`` in seconds since 1970. ``tasks`` and
    ``gates`` count those inside others too, and are 0 where the plan has an error; ``id`` and ``title`` are as far as
    the text tells; one that is not ``checked`` yet tells nothing."""

    path: str
    changed: float
    id: str
    title: str
    tasks: int
    gates: int
    errors: int
    warnings: int
    notes: int
    checked: bool = True


class LastRun(Struct):
    """The newest run of a plan, and how many there are."""

    run: str
    sign: Sign
    ran: float
    runs: int


class PlanLine(Struct):
    """A row of the list. ``state``, ``icon`` and ``word`` are about findings, ``sign`` about the last run."""

    path: str
    title: str
    state: str
    icon: str
    word: str
    has: str
    changed: float
    find: str
    run: str = ""
    sign: Sign | None = None
    ran: float | None = None
    runs: int = 0


def plan_lines(rows: Sequence[PlanRow], last: Mapping[str, LastRun]) -> list[PlanLine]:
    """The rows of the list; ``last`` is the last run by the id of a plan."""
    return [_line(row, last.get(row.id)) for row in rows]


def _line(row: PlanRow, last: LastRun | None) -> PlanLine:
    state, icon, word = _findings(row)
    title = harmless(row.title or row.id or row.path.rpartition("/")[2])
    has = ", ".join(count(number, noun) for number, noun in ((row.tasks, "task"), (row.gates, "gate")) if number)
    line = PlanLine(
        *(row.path, title, state, icon, word, has, row.changed),
        f"{title} {row.id} {row.path}".lower(),
    )
    return line if last is None else line._replace(run=last.run, sign=last.sign, ran=last.ran, runs=last.runs)


def _findings(row: PlanRow) -> tuple[str, str, str]:
    if not row.checked:
        return "wait", "wait", "being checked"
    if row.errors:
        return "bad", "bad", count(row.errors, "error")
    if row.warnings:
        return "wait", "doubt", count(row.warnings, "warning")
    if row.notes:
        return "off", "note", count(row.notes, "note")
    return "off", "ok", "none"


def tabs(rows: Sequence[PlanRow], query: str, wanted: str) -> list[Tab]:
    """All plans, and those that lint finds something wrong with."""
    errors = sum(bool(row.errors) for row in rows)
    warnings = sum(bool(row.warnings) and not row.errors for row in rows)
    made = [
        ("", "All", len(rows), "", ""),
        ("errors", "Errors", errors, "bad", "bad"),
        ("warnings", "Warnings", warnings, "doubt", "wait"),
    ]
    return [
        Tab(word, query_of(q=query, findings=name), name == wanted, number, icon, state)
        for name, word, number, icon, state in made
    ]
