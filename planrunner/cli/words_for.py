"""The words that a shell may complete, as they stand in the state directory: runs, tasks, gates and what is installed.

Each is a candidate, a tab and a description.
"""

from __future__ import annotations

from planrunner.app.authoring import catalogue
from planrunner.app.configuration import profiles as of_project
from planrunner.app.gates import waiting
from planrunner.app.inspect import look, recent_runs
from planrunner.app.queries import STATUSES, RunQuery
from planrunner.diagnostics import RULES
from planrunner.journal import codec

_MOST = 200
"""Tasks that are offered at the most."""


def statuses() -> list[str]:
    return list(STATUSES)


def runs(state: str | None) -> list[str]:
    return ["last\tthe newest run", *(f"{row.run}\t{row.plan_id}" for row in recent_runs(state, RunQuery(limit=30)))]


def tasks(run: str, state: str | None, last: str) -> list[str]:
    """The tasks of a run that the word begins; of very many only those that stand highest."""
    found = [task for task in look(run, state).state.specs if task.id.startswith(last)]
    if len(found) > _MOST:
        found = sorted(found, key=lambda task: _depth(task.id))[:_MOST]
    return [f"{task.id}\t{task.title}" for task in found]


def gates(run: str, state: str | None) -> list[str]:
    (found,) = waiting(run, state)
    gates = [f"{found.state.specs[number].id}\t{found.state.tasks[number].detail}" for number in found.gates]
    return gates + [f"{asked.name}\t{asked.ask}" for asked in found.budgets]


def event_types() -> list[str]:
    return sorted(codec.event_types())


def _depth(path: str) -> int:
    return sum(path.count(sign) for sign in "/[#@")


def rules() -> list[str]:
    return [f"{rule.code}\t{rule.title}" for rule in RULES.values()]


def capabilities() -> list[str]:
    return [f"{capability.name}\t{capability.summary}" for capability in catalogue()]


def profiles() -> list[str]:
    """The profiles of the project, and the word for none of them."""
    return of_project()
