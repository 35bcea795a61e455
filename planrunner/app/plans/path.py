"""A plan file as commands take it: only regular files are opened, because others may never end."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.workspace import find_project
from planrunner.syntax.limits import MAX_TEXT

if TYPE_CHECKING:
    from planrunner.plan.load import File

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(path: str) -> None:
    """Raises NotFound for a pipe, a socket or a device. Folders and what is not there are left to the reader, whose
    messages know more."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return
    if kind in _KINDS:
        raise NotFound(
            f"`{path}` is {_KINDS[kind]}, not a plan",
            Hint("name a regular file; ", NextStep("lint", "-"), " and ", NextStep("fmt", "-"), " read standard input"),
        )


_ENDINGS = (".yaml", ".yml", ".plan", ".plan.yaml", ".plan.yml", ".plan.json", ".json")


def plan_named(word: str) -> str:
    """The path of the plan that ``word`` names: a path, or the name of a plan in the working directory or in the
    ``plans`` folder of it or of the project, without its ending. A word that names no file is returned as it is.

    Raises UsageError where a name fits several plans of the nearest folder, NotFound as ``check_regular``."""
    if os.path.isfile(word):
        return word
    check_regular(word)
    if os.path.lexists(word):
        return word
    name = word.removeprefix("plans/")
    home = os.path.relpath(find_project(None))
    for folder in dict.fromkeys(("", "plans", os.path.normpath(os.path.join(home, "plans")))):
        paths = [path for end in _ENDINGS if os.path.isfile(path := os.path.join(folder, name + end))]
        if len(paths) > 1:
            raise UsageError(f"`{word}` names several plans: {', '.join(paths)}", NextStep("exec", paths[0]))
        if paths:
            return paths[0]
    return word


def read_regular(path: str) -> File:
    """``read_plan`` for regular files only. Raises NotFound; a finding about the size tells the whole size."""
    check_regular(path)
    from planrunner.plan.load import read_plan

    file = read_plan(path)
    size = os.path.getsize(path)
    if size <= MAX_TEXT or not file.findings:
        return file
    message = f"the file has {size:,} bytes; a plan has at most {MAX_TEXT:,}"
    return file._replace(
        findings=tuple(found._replace(message=message) if found.code == "PLAN011" else found for found in file.findings)
    )
