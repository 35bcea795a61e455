"""``planrunner secrets``: which credentials a project lists, where each comes from, and whether it is there."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.app.authoring import load_plan
from planrunner.journal.workspace import find_project
from planrunner.plan.tasks import every_secret
from planrunner.safety.credentials import (
    Credential,
    Unresolved,
    line_of,
    read_credentials,
    readable_by_others,
    unknown,
    value_of,
)


class Credited(NamedTuple):
    """One credential: ``source`` says where it comes from, ``variable`` where tasks find it, ``place`` which line lists
    it. ``there`` is None where nobody looked; ``problem`` and ``warning`` are empty where all is well. The value is
    nowhere among it."""

    id: str
    provider: str
    source: str
    variable: str
    place: str
    there: bool | None = None
    problem: str = ""
    warning: str = ""


def listed(plan: str | None) -> list[Credited]:
    """The credentials of the project that a plan or the current folder belongs to, in the order of its file. Raises
    UsageError and PlanInvalid."""
    directory = find_project(plan)
    return [_credited(each, directory) for each in read_credentials(directory).values()]


def looked_up(plan: str | None) -> list[Credited]:
    """Like ``listed``, each looked up; with a plan only those that its tasks declare, unknown ones among them."""
    directory = find_project(plan)
    known = read_credentials(directory)
    names = list(known) if plan is None else sorted(every_secret(load_plan(plan).tasks))
    return [_looked_up(known[name], directory) if name in known else _unknown(name, list(known)) for name in names]


def _credited(found: Credential, directory: str) -> Credited:
    return Credited(found.id, found.provider, found.place, found.variable, line_of(directory, found.id))


def _looked_up(found: Credential, directory: str) -> Credited:
    credited = _credited(found, directory)._replace(there=True, warning=readable_by_others(found))
    try:
        value_of(found, os.environ)
    except Unresolved as unresolved:
        return credited._replace(there=False, problem=unresolved.why)
    return credited


def _unknown(name: str, known: list[str]) -> Credited:
    return Credited(name, "", "", "", "", False, f"planrunner.yaml lists no such credential: {unknown(name, known)}")
