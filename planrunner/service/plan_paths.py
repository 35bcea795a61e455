"""The plan that an address or a body names: a file below the directory of the project, and nothing else."""

from __future__ import annotations

import os

from planrunner.app.plans.edit import place_of
from planrunner.app.plans.files import plan_paths
from planrunner.caller import Workspace, acting, principal
from planrunner.errors import NotFound
from planrunner.plan.nearest import nearest
from planrunner.service.context import Project


def plan_of(project: Project, path: str) -> str:
    """The absolute path of a plan file by its path below the project. Raises UsageError for a path that is not named
    like a plan, Denied for one that leads out of the project, NotFound with the nearest name."""
    with acting(principal(), Workspace(project.root, project.state)):
        place = place_of(path)
    if not os.path.isfile(place):
        known = [os.path.relpath(each, project.root) for each in plan_paths(project.root)]
        near = nearest(path, known)
        raise NotFound(f"the project has no plan `{path}`", f"did you mean `{near}`?" if near else "")
    return place
