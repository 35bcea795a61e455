"""The page that starts a run: the plans of the project, the form of the chosen one's parameters, and what a run with
them would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.plan.model import Plan
from planrunner.records import Struct
from planrunner.views.page.fields import Field, field_of
from planrunner.views.page.figures import count

Json = Any

PREFIX = "p."
"""What stands before the name of a parameter in the form."""


class PlanLine(Struct):
    """A plan that may be chosen."""

    path: str
    title: str
    chosen: bool


class Row(Struct):
    """A task of the preview. ``mark`` and ``state`` say what becomes of it, ``facts`` why and how."""

    task: str
    depth: int
    icon: str
    state: str
    word: str
    facts: str


class StartPage(Struct):
    """The chosen plan with its form. ``problem`` is what keeps a run from starting."""

    path: str
    title: str
    description: str
    fields: tuple[Field, ...]
    problem: str = ""


_WHAT = {
    "runs": ("play", "", "runs"),
    "asks": ("gate", "gate", "asks people"),
    "decided": ("doubt", "", "decided while it runs"),
    "on failure": ("retry", "", "only after a failure"),
    "skipped": ("off", "off", "skipped"),
    "omitted": ("off", "off", "not run"),
    "left out": ("off", "off", "not selected"),
}
MOST = 200
"""Tasks that a preview lists."""


def start_page(path: str, plan: Plan, given: Mapping[str, str], problems: Sequence[str] = ()) -> StartPage:
    """The form of a plan's parameters. ``given`` are values by parameter name that come back into it; ``problems`` are
    those of ``bind_params``, each of which names its parameter in backticks."""
    names = [param.name for param in plan.params]
    about = {name: next((each for each in problems if f"parameter `{name}`" in each), "") for name in names}
    rest = [each for each in problems if each not in about.values()]
    fields = tuple(field_of(param, PREFIX, given, _short(about[param.name])) for param in plan.params)
    return StartPage(path, harmless(plan.title or plan.id), harmless(plan.description), fields, "; ".join(rest))


def _short(problem: str) -> str:
    """A problem without the option of the command line that it names."""
    return problem.partition(": -p ")[0]


def preview_rows(document: Mapping[str, Json]) -> tuple[tuple[Row, ...], int]:
    """The tasks of a preview in the order in which they can start, and how many more there are."""
    rows: list[Row] = []
    _add(rows, document["envelope"]["tasks"], 0)
    return tuple(rows[:MOST]), max(0, len(rows) - MOST)


def _add(rows: list[Row], tasks: Sequence[Mapping[str, Json]], depth: int) -> None:
    for task in tasks:
        icon, state, word = _WHAT[task["what"]]
        facts = "; ".join(filter(None, _facts(task)))
        rows.append(Row(harmless(task["task"]), depth, icon, state, word, harmless(facts)))
        _add(rows, task.get("inner", ()), depth + 1)


def _facts(task: Mapping[str, Json]) -> list[str]:
    facts = [str(task["why"])]
    if task.get("first"):
        facts.append(f"asks first: {' and '.join(task['first'])}")
    if task.get("items") is not None:
        facts.append(count(task["items"], "item"))
    if task.get("rounds"):
        facts.append(f"at most {count(task['rounds'], 'round')}")
    if task.get("expires"):
        facts.append(f"expires after {task['expires']}")
    if task["what"] in ("runs", "decided", "on failure"):
        command = " ⏎ ".join(line.strip() for line in str(task["command"]).splitlines() if line.strip())
        facts.append((command or str(task["calls"]))[:160])
        if task["attempts"] is not None and task["attempts"] > 1:
            facts.append(f"at most {count(task['attempts'], 'attempt')}")
        if task.get("rollback"):
            facts.append(f"undone by {task['rollback']}")
    return facts
