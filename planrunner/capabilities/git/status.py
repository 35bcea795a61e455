"""What stands in a working tree: branch, distance to its upstream, and every path that differs."""

from __future__ import annotations

import os
from typing import Annotated, Literal, NamedTuple

from planrunner.capabilities.contract import Context
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.git import names
from planrunner.capabilities.git.repository import open_repository

Untracked = Literal["no", "normal", "all"]

_HELD = {"1": 8, "2": 9, "u": 10}
"""Fields before the path, by the kind of line."""


class Entry(NamedTuple):
    """One path: what the index has against HEAD, and the working tree against the index, each as git's letter (``.`` is
    no difference); ``kind`` is changed, renamed, conflict, untracked or ignored."""

    path: str
    kind: str
    staged: str = "."
    unstaged: str = "."
    origin: str = ""


class Status(NamedTuple):
    branch: Annotated[str, Doc("short name; empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit of HEAD; empty before the first")]
    upstream: Annotated[str, Doc("such as origin/main; empty without one")]
    ahead: int
    behind: int
    clean: Annotated[bool, Doc("nothing differs and nothing is untracked")]
    entries: list[Entry]


@capability("git.status", effect="read")
def status(
    context: Context,
    paths: Annotated[list[str] | None, Doc("only these files and folders, taken literally")] = None,
    untracked: Annotated[Untracked, Doc("files that git does not know: none, folders as one, or each")] = "normal",
    ignored: Annotated[bool, Doc("tell ignored files too")] = False,
) -> Status:
    """What differs in the working tree, and how the branch stands to its upstream."""
    repository = open_repository(context)
    arguments = ["status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={untracked}"]
    arguments += ["--ignore-submodules=all", f"--ignored={'traditional' if ignored else 'no'}", "--no-renames", "--"]
    return parsed(repository.git.run(*arguments, *(names.path(path) for path in paths or ())).stdout)


def parsed(data: bytes) -> Status:
    """What ``git status --porcelain=v2 --branch -z`` printed."""
    facts: dict[str, str] = {}
    entries: list[Entry] = []
    lines = iter(os.fsdecode(data).split("\0"))
    for line in lines:
        if line.startswith("# "):
            name, _, value = line[2:].partition(" ")
            facts[name] = value
        elif line:
            entries.append(_entry(line, lines))
    ahead, behind = _distance(facts.get("branch.ab", ""))
    branch, commit = facts.get("branch.head", ""), facts.get("branch.oid", "")
    return Status(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=facts.get("branch.upstream", ""),
        ahead=ahead,
        behind=behind,
        clean=not [entry for entry in entries if entry.kind != "ignored"],
        entries=[_readable(entry) for entry in entries],
    )


def _entry(line: str, following: object) -> Entry:
    kind = line[0]
    if kind in "?!":
        return Entry(line[2:], "untracked" if kind == "?" else "ignored")
    fields = line.split(" ", _HELD[kind])
    letters, path = fields[1], fields[-1]
    if kind == "2":
        return Entry(path, "renamed", letters[0], letters[1], next(following))  # type: ignore[call-overload]
    return Entry(path, "conflict" if kind == "u" else "changed", letters[0], letters[1])


def _readable(entry: Entry) -> Entry:
    """Names that are no UTF-8 cannot be said in JSON: their odd bytes become U+FFFD."""
    path, origin = (os.fsencode(text).decode("utf-8", "replace") for text in (entry.path, entry.origin))
    return entry._replace(path=path, origin=origin)


def _distance(text: str) -> tuple[int, int]:
    ahead, _, behind = text.partition(" ")
    return int(ahead or 0), -int(behind or 0)
