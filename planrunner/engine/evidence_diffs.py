"""Changes of the working tree as evidence of a gate, without running what the repository names: its settings, filters
and hooks are as foreign here as in the capabilities of git."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.git.command import Git, Refused
from planrunner.capabilities.git.repository import open_repository
from planrunner.engine.evidence_files import SHOWN, Unfit, digest_of, file_record
from planrunner.engine.services import AttemptServices
from planrunner.plan.model import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = Any
Record = dict[str, Json]

PATIENCE = 60.0
"""Seconds that git may take."""


class _Silent:
    """A log for what nobody reads."""

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Mapping[str, Json]) -> None: ...


def diff(look: Record, directory: str) -> Iterator[Record]:
    """The changes of the working tree, or of a range of commits; what is named as a range and is a path that exists
    stands for the changes of that path. Without a range what git does not know yet is part of it."""
    range_, paths = str(look.get("range") or ""), [str(path) for path in look.get("paths", ())]
    if range_.startswith("-"):
        raise Unfit("a range of commits does not begin with a dash")
    if range_ and (any(sign in range_ for sign in "*?[") or os.path.lexists(os.path.join(directory, range_))):
        range_, paths = "", [range_, *paths]
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--binary")
    git = _git(directory)
    data = _asked(git, "diff", *options, range_ or "HEAD", "--", *paths)
    new = [] if range_ else _unknown_files(git, paths)
    whole = data + b"".join(f"{name} {record['digest']}\n".encode() for name, record in new)
    text = data.decode("utf-8", "replace")
    lines = text.splitlines()
    counts = {
        "files": sum(line.startswith("diff --git ") for line in lines) + len(new),
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
    }
    shown = "".join(f"new file {name}\n" for name, _ in new) + text
    name = f"git diff {range_}".strip() + (f" -- {' '.join(paths)}" if paths else "")
    yield {"kind": "diff", "name": name, "digest": digest_of(whole), "text": shown[:SHOWN], "counts": counts}


def _unknown_files(git: Git, paths: Sequence[str]) -> list[tuple[str, Record]]:
    listed = _asked(git, "ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
    names = [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]
    return [
        (name, file_record(git.directory, name))
        for name in sorted(names)
        if os.path.isfile(os.path.join(git.directory, name)) and not name.startswith(".planrunner/")
    ]


def _git(directory: str) -> Git:
    """Git in the repository around the directory. Raises Unfit where there is none, or its settings are refused."""
    end = time.monotonic() + PATIENCE
    call = Call("", Task("gate"), 1, "", {}, "", (), {}, {}, directory, "", None)
    context = Context(call, _Silent(), lambda: time.monotonic() > end, AttemptServices("", directory, None, {}))
    try:
        git = open_repository(context).git
    except Failure as failure:
        if "lies in no git repository" in str(failure):
            raise Unfit("this is no work tree of git") from None
        raise Unfit(str(failure), failure.rule) from None
    return git._replace(variables={**git.variables, "GIT_LITERAL_PATHSPECS": "0"})  # paths may be patterns here


def _asked(git: Git, *arguments: str) -> bytes:
    try:
        return git.raw(*arguments)
    except Refused as refused:
        if "bad revision" in refused.said:
            raise Unfit("there is no such file, and git knows no such range of commits") from None
        raise Unfit(str(refused)) from None
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None
