"""A plan file as commands take it: only regular files are opened, because others may never end."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.workspace import find_project
from planrunner.later import Later
from planrunner.plan.names import ENDINGS, plans_named
from planrunner.source import MAX_TEXT

if TYPE_CHECKING:
    from planrunner.plan.files import File, read_plan
else:
    read_plan = Later("planrunner.plan.files:read_plan")


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


def plan_named(word: str, root: str = "") -> str:
    """The path of the plan that ``word`` names, from the directory ``root`` (the working directory where it is empty),
    or the word as it is where it names none. This is the one place that decides it.

    A bare word, without a slash and without the ending of a plan, is the name of a plan first, in ``root`` and then in
    the project; only where there is none is it a path. Any other word is a path first.

    Raises UsageError for a name of several plans, NotFound as ``check_regular``."""
    is_bare = "/" not in word and word not in ("", "-", os.curdir, os.pardir) and not word.endswith(ENDINGS)
    if not is_bare and os.path.lexists(os.path.join(root, word)):
        check_regular(os.path.join(root, word))
        return word
    homes = dict.fromkeys(("", "" if root else os.path.relpath(find_project(None))))
    paths = plans_named(os.path.normpath(word), root, homes) if word and not os.path.isabs(word) else []
    if len(paths) > 1:
        raise UsageError(f"`{word}` names several plans: {', '.join(paths)}", NextStep("exec", paths[0]))
    if not paths:
        check_regular(os.path.join(root, word))
    return paths[0] if paths else word


def read_regular(path: str) -> File:
    """``read_plan`` for regular files only. Raises NotFound; a finding about the size tells the whole size."""
    check_regular(path)
    file = read_plan(path)
    size = os.path.getsize(path)
    if size <= MAX_TEXT or not file.findings:
        return file
    message = f"the file has {size:,} bytes; a plan has at most {MAX_TEXT:,}"
    return file._replace(
        findings=tuple(found._replace(message=message) if found.code == "PLAN011" else found for found in file.findings)
    )
