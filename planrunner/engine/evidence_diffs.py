"""Changes of the working tree as evidence of a gate, without running what the repository names: its settings, filters
and hooks are as foreign here as in the capabilities of git."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.files.scope import Scope
from planrunner.capabilities.git.command import Git, Refused
from planrunner.capabilities.git.repository import Repository, open_repository
from planrunner.engine.evidence_files import SHOWN, Unfit, digest_of, file_record, require_readable
from planrunner.engine.services import AttemptServices
from planrunner.plan.model import Task

Json = Any
Record = dict[str, Json]

PATIENCE = 60.0
"""Seconds that git may take."""


class _Silent:
    """A log for what nobody reads."""

    usage: Mapping[str, Json] = {}

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Mapping[str, Json]) -> None: ...


def diff(look: Record, directory: str, scope: Scope | None = None) -> Iterator[Record]:
    """The changes of the working tree, or of a range of commits; what is named as a range and is a path that exists
    stands for the changes of that path. Without a range what git does not know yet is part of it. Where one of the
    files may not be read by ``scope`` nothing is shown: a review of a part would pass for one of all."""
    range_, paths = str(look.get("range") or ""), [str(path) for path in look.get("paths", ())]
    if range_.startswith("-"):
        raise Unfit("a range of commits does not begin with a dash")
    if range_ and (any(sign in range_ for sign in "*?[") or os.path.lexists(os.path.join(directory, range_))):
        range_, paths = "", [range_, *paths]
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--binary")
    found = _repository(directory)
    git = found.git._replace(variables={**found.git.variables, "GIT_LITERAL_PATHSPECS": "0"})  # may be patterns here
    if scope is not None:
        _require_commits(git, range_)
        for name in _split(_asked(git, "diff", "--name-only", "--no-renames", "-z", range_ or "HEAD", "--", *paths)):
            require_readable(directory, os.path.join(found.top, name), scope)
    data = _asked(git, "diff", *options, range_ or "HEAD", "--", *paths)
    new = [] if range_ else _unknown_files(git, paths, scope)
    whole = data + b"".join(f"{name} {record['digest']}\n".encode() for name, record in new)
    text = data.decode("utf-8", "replace")
    lines = text.splitlines()
    counts = {
        "files": sum(line.startswith("diff --git ") for line in lines) + len(new),
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        + sum(len(str(record["text"]).splitlines()) for _, record in new),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
    }
    shown = "".join(_new_file(name, record) for name, record in new) + text
    name = f"git diff {range_}".strip() + (f" -- {' '.join(paths)}" if paths else "")
    yield {"kind": "diff", "name": name, "digest": digest_of(whole), "text": shown[:SHOWN], "counts": counts}


def _new_file(name: str, record: Record) -> str:
    """A file that git does not know yet, its lines as those of a diff."""
    text = str(record["text"])
    if not text:
        return f"new file {name}, {record['size']} bytes\n"
    return f"new file {name}\n" + "".join(f"+{line}\n" for line in text.splitlines())


def _require_commits(git: Git, range_: str) -> None:
    """Raises Unfit where a range names anything but commits: the paths in a folder or a file that git keeps say nothing
    of where it lies, by which a policy would judge it."""
    for each in _asked(git, "rev-parse", "--revs-only", range_, "--").decode().split() if range_ else ():
        try:
            git.raw("rev-parse", "--quiet", "--verify", f"{each.removeprefix('^')}^{{commit}}")
        except Refused:
            said = f"`{range_}` names no commits, by which a policy could judge the files; name those under `paths`"
            raise Unfit(said) from None


def _split(listed: bytes) -> list[str]:
    return [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]


def _unknown_files(git: Git, paths: Sequence[str], scope: Scope | None) -> list[tuple[str, Record]]:
    names = _split(_asked(git, "ls-files", "--others", "--exclude-standard", "-z", "--", *paths))
    return [
        (name, file_record(git.directory, name, scope))
        for name in sorted(names)
        if os.path.isfile(os.path.join(git.directory, name)) and not name.startswith(".planrunner/")
    ]


def _repository(directory: str) -> Repository:
    """The repository around the directory. Raises Unfit where there is none, or its settings are refused."""
    end = time.monotonic() + PATIENCE
    call = Call("", Task("gate"), 1, "", {}, "", (), {}, {}, directory, "", None)
    context = Context(call, _Silent(), lambda: time.monotonic() > end, AttemptServices("", directory, None, {}))
    try:
        return open_repository(context)
    except Failure as failure:
        if "lies in no git repository" in str(failure):
            raise Unfit("this is no work tree of git") from None
        raise Unfit(str(failure), failure.rule) from None


def _asked(git: Git, *arguments: str) -> bytes:
    try:
        return git.raw(*arguments)
    except Refused as refused:
        if "bad revision" in refused.said:
            raise Unfit("there is no such file, and git knows no such range of commits") from None
        raise Unfit(str(refused)) from None
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None
