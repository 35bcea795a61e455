"""The environment files of a project, for commands that run something."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from planrunner.journal.workspace import NAME, find_project, find_state, why_outside
from planrunner.safety.envfiles import env_variables

if TYPE_CHECKING:
    from planrunner.cli.settings import Settings


def lay_environment(given: Settings, plan: str | None = None) -> None:
    """Set what the environment files of the project say and what is not set yet; of a project from outside nothing.
    Raises as ``env_variables``."""
    state = find_state(plan, given.state)
    project = os.path.dirname(state) if os.path.basename(state) == NAME else find_project(plan)
    settings = os.path.join(project, "planrunner.yaml")
    if not os.path.lexists(settings) or why_outside(settings) or (plan is not None and why_outside(plan)):
        return
    for name, value in env_variables(project).items():
        os.environ.setdefault(name, value)
