"""The projects that a service shows, by the names that stand in addresses."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from planrunner.errors import UsageError
from planrunner.journal.workspace import NAME, find_project, find_state
from planrunner.service.context import Project

RESERVED = frozenset({"api", "static", "hooks", "livez", "readyz", "metrics", "sign-in", "sign-out"})
"""First parts of addresses that stand for something else."""


def projects_at(directories: Sequence[str], state: str | None = None) -> list[Project]:
    """The projects of directories, of which none means that of the caller. ``state`` is a state directory that was
    chosen. Raises UsageError where one is chosen for several projects."""
    if state and len(directories) > 1:
        raise UsageError("--state names one state directory, and each project has its own", "leave it out")
    if not directories:
        place = find_state(None, state)
        return [_project(find_project(None), place, ())]
    found: list[Project] = []
    for directory in directories:
        root = os.path.abspath(directory)
        if all(each.root != root for each in found):
            found.append(_project(root, os.path.abspath(state) if state else os.path.join(root, NAME), found))
    return found


def _project(root: str, state: str, others: Sequence[Project]) -> Project:
    """Named after the folder, as an address can have it, and unlike the others."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(root)).strip("-.") or "project"
    taken = RESERVED | {each.name for each in others}
    name = next(each for each in (plain, *(f"{plain}-{number}" for number in range(2, 10_000))) if each not in taken)
    return Project(name, root, state)
