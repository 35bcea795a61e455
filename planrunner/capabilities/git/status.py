"""What stands in a working tree: branch, distance to its upstream, and every path that differs."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, capability
from planrunner.capabilities.git.names import checked_path
from planrunner.capabilities.git.repository import open_repository

Untracked = Literal["no", "normal", "all"]

_HELD = {"1": 8, "u": 10}
"""Fields before the path, by the kind of line."""


class Entry(TypedDict):
    """One path: what the index has against HEAD, and the working tree against the index, each as git's letter (``.`` is
    no difference); ``kind`` is changed, conflict, untracked or ignored."""

    path: str
    kind: str
    staged: str
    unstaged: str


class Status(NamedTuple):
    branch: Annotated[str, Doc("short name; empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit of HEAD; empty before the first")]
    upstream: Annotated[str, Doc("such as origin/main; empty without one")]
    ahead: Annotated[int, Doc("commits that the upstream does not have")]
    behind: Annotated[int, Doc("commits that only the upstream has")]
    clean: Annotated[bool, Doc("nothing differs and nothing is untracked")]
    entries: Annotated[list[Entry], Doc("each path with its `kind`, and git's letters for what is staged and not")]


@capability(
    "git.status",
    effect="read",
    preconditions=("program git",),
)
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
    return parsed(repository.git.run(*arguments, *(checked_path(path) for path in paths or ())).stdout)


def parsed(data: bytes) -> Status:
    """What ``git status --porcelain=v2 --branch -z --no-renames`` printed; odd bytes in names become U+FFFD."""
    facts: dict[str, str] = {}
    entries: list[Entry] = []
    for line in data.decode("utf-8", "replace").split("\0"):
        if line.startswith("# "):
            name, _, value = line[2:].partition(" ")
            facts[name] = value
        elif line:
            entries.append(_entry(line))
    ahead, behind = _distance(facts.get("branch.ab", ""))
    branch, commit = facts.get("branch.head", ""), facts.get("branch.oid", "")
    return Status(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=facts.get("branch.upstream", ""),
        ahead=ahead,
        behind=behind,
        clean=not [entry for entry in entries if entry["kind"] != "ignored"],
        entries=entries,
    )


def _entry(line: str) -> Entry:
    kind = line[0]
    if kind in "?!":
        return Entry(path=line[2:], kind="untracked" if kind == "?" else "ignored", staged=".", unstaged=".")
    fields = line.split(" ", _HELD[kind])
    letters = fields[1]
    kind = "conflict" if kind == "u" else "changed"
    return Entry(path=fields[-1], kind=kind, staged=letters[0], unstaged=letters[1])


def _distance(text: str) -> tuple[int, int]:
    ahead, _, behind = text.partition(" ")
    return int(ahead or 0), -int(behind or 0)
