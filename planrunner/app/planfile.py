"""A plan file as commands take it: only regular files are opened, because others may never come to an end."""

from __future__ import annotations

import os
import stat

from planrunner.errors import NotFound
from planrunner.record import TYPE_CHECKING

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
            "name a regular file; `planrunner lint -` and `planrunner fmt -` read standard input",
        )


def read_regular(path: str) -> File:
    """``read_plan`` for regular files only. Raises NotFound; a finding about the size tells the whole size."""
    from planrunner.plan.load import read_plan  # late: a plan that ran before is read without the loader
    from planrunner.syntax.limits import MAX_TEXT

    check_regular(path)
    file = read_plan(path)
    size = os.path.getsize(path)
    if size <= MAX_TEXT or not file.findings:
        return file
    message = f"the file has {size:,} bytes; a plan has at most {MAX_TEXT:,}"
    return file._replace(
        findings=tuple(found._replace(message=message) if found.code == "PLAN011" else found for found in file.findings)
    )
