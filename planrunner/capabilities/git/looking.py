"""Looking at differences and at history: nothing is changed, and no program of the repository is run."""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, capability, size
from planrunner.capabilities.git import scopes
from planrunner.capabilities.git.names import checked_path
from planrunner.capabilities.git.repository import Repository, commit_of, open_repository
from planrunner.capabilities.git.staging import File

PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--no-renames"),
)
"""Options of every difference: no foreign program, be it of a submodule, and no settings of the user in its form."""

_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%s%x00%B%x00%x01"


class Changed(TypedDict):
    """A file that differs; lines are null where it is binary."""

    path: str
    added: int | None
    removed: int | None


class Difference(NamedTuple):
    diff: Annotated[str, Doc("a unified diff")]
    truncated: Annotated[bool, Doc("the diff was longer than max_bytes")]
    files: Annotated[list[Changed], Doc("each with its path, and lines added and removed; null for a binary file")]
    added: Annotated[int, Doc("lines in all")]
    removed: Annotated[int, Doc("lines in all")]


class Commit(TypedDict):
    commit: str
    parents: list[str]
    author: str
    email: str
    date: str
    subject: str
    message: str


class History(NamedTuple):
    commits: Annotated[list[Commit], Doc("the newest first: commit, parents, author, email, date, subject, message")]


class Shown(NamedTuple):
    commit: Annotated[str, Doc("its digest")]
    parents: Annotated[list[str], Doc("digests of the commits it is based on")]
    author: Annotated[str, Doc("name of the author")]
    email: Annotated[str, Doc("mail address of the author")]
    date: Annotated[str, Doc("when it was written, as in 2026-01-31T12:00:00+00:00")]
    subject: Annotated[str, Doc("first line of the message")]
    message: Annotated[str, Doc("the whole message")]
    diff: Annotated[str, Doc("against the first parent")]
    files: Annotated[list[Changed], Doc("each with its path, and lines added and removed")]


@capability(
    "git.diff",
    effect="read",
    foreign=("diff", "files"),
    preconditions=("program git",),
)
def diff(
    context: Context,
    base: Annotated[str, Doc("commit to compare with; default: the index, or HEAD with staged")] = "",
    target: Annotated[str, Doc("commit to compare; default: the working tree, or the index with staged")] = "",
    paths: Annotated[list[File] | None, Doc("only these files and folders, taken literally")] = None,
    staged: Annotated[bool, Doc("what is staged rather than what stands in the working tree")] = False,
    context_lines: Annotated[int, Doc("unchanged lines around each change")] = 3,
    max_bytes: Annotated[int | str, Doc("cut the diff after this", quantity="size")] = "200KB",
) -> Difference:
    """What differs between commits, index and working tree."""
    repository = open_repository(context)
    if staged and target:
        raise Failure("`staged` compares the index: it takes no `target`")
    if target and not base:
        raise Failure("`target` needs a `base` to be compared with")
    wanted = [*(("--cached",) if staged else ()), *(commit_of(repository, name) for name in (base, target) if name)]
    wanted += ["--", *(checked_path(path) for path in paths or ())]
    scopes.require_named(context, paths or ())
    listed = repository.git.items("diff", *PLAIN, "--numstat", "-z", *wanted)
    scopes.require(context, "read", repository.top, map(_path, listed))
    text, more = repository.git.first(_bytes(max_bytes), "diff", *PLAIN, f"-U{max(0, int(context_lines))}", *wanted)
    files = _counted(listed)
    return Difference(text.decode("utf-8", "replace"), more, files, *_sums(files))


@capability(
    "git.log",
    effect="read",
    foreign=("commits",),
    own=("commits.*.commit", "commits.*.date"),
    preconditions=("program git",),
)
def log(
    context: Context,
    ref: Annotated[str, Doc("commit to begin with")] = "HEAD",
    since: Annotated[str, Doc("leave out this commit and what it is based on")] = "",
    paths: Annotated[list[str] | None, Doc("only commits that change these, taken literally")] = None,
    limit: Annotated[int, Doc("at most so many commits")] = 50,
) -> History:
    """The newest commits, with their messages."""
    repository = open_repository(context)
    if not 0 < limit <= 10_000:
        raise Failure("`limit` must be between 1 and 10000")
    wanted = [commit_of(repository, ref), *(f"^{commit_of(repository, name)}" for name in (since,) if name)]
    return History(_commits(repository, [f"--max-count={limit}", *wanted, "--", *map(checked_path, paths or ())]))


@capability(
    "git.show",
    effect="read",
    foreign=("author", "email", "subject", "message", "diff", "files"),
    own=("commit", "parents", "date"),
    preconditions=("program git",),
)
def show(
    context: Context,
    ref: Annotated[str, Doc("the commit")] = "HEAD",
    max_bytes: Annotated[int | str, Doc("cut the diff after this", quantity="size")] = "200KB",
) -> Shown:
    """One commit with its message and its diff."""
    repository = open_repository(context)
    commit = commit_of(repository, ref)
    found = _commits(repository, ["--max-count=1", commit, "--"])[0]
    first = ("--root", commit) if not found["parents"] else (found["parents"][0], commit)
    asked = ("diff-tree", "-r", *PLAIN, "--no-commit-id")
    listed = repository.git.items(*asked, "--numstat", "-z", *first)
    scopes.require(context, "read", repository.top, map(_path, listed))
    text, _ = repository.git.first(_bytes(max_bytes), *asked, "-p", *first)
    files = _counted(listed)
    return Shown(**found, diff=text.decode("utf-8", "replace"), files=files)


def _commits(repository: Repository, arguments: list[str]) -> list[Commit]:
    shape = ("--no-color", "--no-show-signature", "--encoding=UTF-8", f"--format=tformat:{_FORMAT}")
    text = repository.git.run("log", *shape, "--no-patch", "--no-notes", *arguments).text
    found = []
    for record in text.split("\0\x01\n"):
        if record:
            digest, parents, author, email, date, subject, message = record.split("\0")
            found.append(
                Commit(
                    commit=digest,
                    parents=parents.split(),
                    author=author,
                    email=email,
                    date=date,
                    subject=subject,
                    message=message.rstrip("\n"),
                )
            )
    return found


def _counted(items: list[str]) -> list[Changed]:
    found = []
    for item in items:
        added, removed, path = item.split("\t", 2)
        path = os.fsencode(path).decode("utf-8", "replace")
        numbers = [None if count == "-" else int(count) for count in (added, removed)]
        found.append(Changed(path=path, added=numbers[0], removed=numbers[1]))
    return found


def _path(item: str) -> str:
    """The path in a line of ``--numstat -z``."""
    return item.split("\t", 2)[2]


def _sums(files: list[Changed]) -> tuple[int, int]:
    return sum(file["added"] or 0 for file in files), sum(file["removed"] or 0 for file in files)


def _bytes(value: int | str) -> int:
    try:
        return size(value)
    except ValueError as error:
        raise Failure(f"`max_bytes`: {error}") from None
