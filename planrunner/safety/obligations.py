"""What a project holds its plans to when they are checked."""

from __future__ import annotations

from planrunner.errors import PlanInvalid, UsageError
from planrunner.plan.rules.view import Project
from planrunner.safety.credentials import read_credentials
from planrunner.safety.project import levels, policy_records, read_project
from planrunner.safety.roster import read_roster


def obligations(directory: str) -> Project:
    """People, policy, variables and agents of the project in a directory; nothing where its settings are not sound,
    which the check of the settings finds."""
    try:
        variables = {name: each.env_var for name, each in read_credentials(directory).items()}
        people, roster = read_project(directory).people, read_roster(directory)
        return Project(people, levels(policy_records(directory)), variables, directory, roster=roster)
    except (UsageError, PlanInvalid):
        return Project()
