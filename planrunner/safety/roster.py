"""The agents and tools that a project has for its plans, from its settings, with the files that they name read in."""

from __future__ import annotations

import os
from typing import Any

from planrunner.errors import PlanInvalid, UsageError
from planrunner.fileio import read_regular
from planrunner.plan.agents import MODEL_CHOICES, Roster
from planrunner.safety.project import read_data

Json = Any

LARGEST = 1 << 20
"""Bytes of a file of instructions."""


def read_roster(directory: str) -> Roster:
    """The agents and tools of the project in a directory. Raises as ``read_data``, and UsageError for a file that an
    agent names and that cannot be read."""
    data = read_data(directory)
    agents = {name: _agent(name, said, directory) for name, said in named(data.get("agents")).items()}
    tools, contexts = (named(data.get(name)) for name in ("tools", "contexts"))
    models = tuple(name for name in named(data.get("models")) if name not in MODEL_CHOICES)
    judge = str(named(data.get("models")).get("judge") or "")
    return Roster(agents, tools, directory, data.get("reflect"), contexts, models, judge)


def roster_or_none(directory: str) -> Roster | None:
    """The same, None where the settings are not sound."""
    try:
        return read_roster(directory)
    except (UsageError, PlanInvalid):
        return None


def named(section: Json) -> dict[str, Json]:
    """A section by name, whether it is written as a mapping or as a list of entries with an id."""
    if isinstance(section, list):
        return {each["id"]: {key: value for key, value in each.items() if key != "id"} for each in section}
    return dict(section or {})


def _agent(name: str, said: dict[str, Json], directory: str) -> dict[str, Json]:
    """What a project says of an agent, with the texts that it names in their places."""
    agent = dict(said or {})
    system = agent.pop("instructions", None) or agent.pop("system_prompt", None) or agent.pop("system", None)
    if system is not None:
        parts = system if isinstance(system, list) else [system]
        agent["system"] = "\n\n".join(_text(name, part, directory) for part in parts)
    return agent


def _text(name: str, part: Json, directory: str) -> str:
    """A part of the instructions: text, or a file that holds it."""
    if not isinstance(part, dict):
        return str(part)
    path = os.path.join(directory, str(part["file"]))
    try:
        return read_regular(path, LARGEST).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"the agent `{name}` names the file `{part['file']}`, which cannot be read: {why}") from None
