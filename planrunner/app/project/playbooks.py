"""The playbooks of this installation: plans to start from, each with its tests, its rehearsal and the files it uses."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.fileio import data_path, read_data
from planrunner.plan.nearest import nearest

PLAYBOOKS = (
    "backfill",
    "coding-agent",
    "debugging",
    "dependency-update",
    "deploy",
    "feature",
    "incident",
    "migration",
    "nightly-report",
    "refactor",
    "release",
    "research",
)
_KIND = "plans/playbooks"
_SCHEMA_LINE = "# yaml-language-server:"
"""The first line of a plan of this repository; the schema it names is not in a project that installs the plan."""


class Installed(NamedTuple):
    """The files of a playbook in a project, in the order of writing; ``plan`` is the plan, ``rehearsal`` the program
    that runs it on a scratch project."""

    plan: str
    rehearsal: str
    files: tuple[str, ...]


def install_playbook(directory: str, name: str) -> Installed:
    """Write the playbook ``name`` below ``directory``/plans.

    Raises NotFound for an unknown name, and UsageError where a file that differs is in the way (then nothing is
    written) or a file cannot be written.
    """
    if name not in PLAYBOOKS:
        near = nearest(name, PLAYBOOKS)
        raise NotFound(
            f"there is no playbook `{name}`",
            f"did you mean `{near}`?" if near else f"playbooks: {', '.join(PLAYBOOKS)}",
        )
    texts = {os.path.join(directory, "plans", path): _text(path) for path in _paths(name)}
    for path, text in texts.items():
        if os.path.lexists(path) and not _holds(path, text):
            raise UsageError(
                f"`{path}` is there already, and differs",
                Hint(
                    "move it away, or install the playbook elsewhere: ",
                    NextStep("init", "DIRECTORY", "--playbook", name),
                ),
            )
    for path, text in texts.items():
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"`{error.filename or path}` cannot be written: {error.strerror}") from error
    plans = os.path.join(directory, "plans")
    return Installed(os.path.join(plans, f"{name}.yaml"), os.path.join(plans, "rehearsals", f"{name}.py"), tuple(texts))


def _paths(name: str) -> list[str]:
    """The files of a playbook, relative to ``plans`` here and in a project."""
    root = os.path.dirname(data_path(_KIND, f"{name}.yaml"))
    parts = os.path.join(root, "parts", name)
    below = [
        os.path.relpath(os.path.join(folder, file), root)
        for folder, _, files in os.walk(parts)
        for file in files
        if not file.endswith(".pyc")
    ]
    return [f"{name}.yaml", *sorted(below), f"tests/{name}.test.yaml", f"rehearsals/{name}.py"]


def _text(path: str) -> str:
    text = read_data(_KIND, path)
    first, _, rest = text.partition("\n")
    return rest if first.startswith(_SCHEMA_LINE) else text


def _holds(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except (OSError, UnicodeDecodeError):
        return False
