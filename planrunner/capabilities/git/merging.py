"""Merging. The result is computed before anything is touched: a conflict leaves everything as it was."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import index, moving
from planrunner.capabilities.git.command import plain_call, shown
from planrunner.capabilities.git.commits import contains, make
from planrunner.capabilities.git.identity import identities
from planrunner.capabilities.git.messages import composed
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import (
    Head,
    Repository,
    commit_of,
    head_of,
    must_be_calm,
    open_repository,
    slot,
)
from planrunner.capabilities.git.undoing import looking, taking_back

FastForward = Literal["auto", "only", "never"]


class Merged(NamedTuple):
    commit: Annotated[str, Doc("the commit of HEAD now")]
    previous: Annotated[str, Doc("the commit of HEAD before")]
    how: Annotated[str, Doc("`up_to_date`, `fast_forward` or `merge`")]
    index_sha256: Annotated[str, Doc("SHA-256 of the index")]
    conflicts: Annotated[list[str], Doc("paths that both sides changed, where it failed as `conflict`; else none")]
    messages: Annotated[list[str], Doc("what git says about each of them")]


class _Result(NamedTuple):
    """What a merge comes to: ``tree`` is a commit where it is a fast-forward, else a tree."""

    how: str
    head: Head
    theirs: str
    tree: str


def _result(repository: Repository, ref: str, ff: str) -> _Result:
    if ff not in ("auto", "only", "never"):
        raise Failure(f"`ff` takes auto, only or never, found {ff}")
    head, theirs = moving.must_have_commits(repository), commit_of(repository, ref)
    if contains(repository, head.commit, theirs):
        return _Result("up_to_date", head, theirs, head.commit)
    if ff != "never" and contains(repository, theirs, head.commit):
        return _Result("fast_forward", head, theirs, theirs)
    if ff == "only":
        raise Failure(f"{ref} is no descendant of HEAD, so there is no fast-forward", "diverged")
    return _Result("merge", head, theirs, _merged_tree(repository, head.commit, theirs))


def _merged_tree(repository: Repository, ours: str, theirs: str) -> str:
    """The tree of the merge. Raises Failure (conflict) with the paths and what git says about each."""
    asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    ended = repository.git.run(*asked, ok=(0, 1, 129))
    if ended.code == 129:
        raise Failure("this git is too old to merge: 2.38 or later is needed")
    head, _, messages = os.fsdecode(ended.stdout).partition("\0\0")
    tree, *paths = [part for part in head.split("\0") if part]
    if ended.code == 0:
        return tree
    told = shown(os.fsencode(messages)).replace("\\x00", "\n").splitlines()
    said = [line for line in told if line.startswith("CONFLICT") and ": " in line]
    conflicts = sorted({os.fsencode(path).decode("utf-8", "replace") for path in paths})
    raise Failure(
        f"{_counted(len(conflicts))}: {', '.join(conflicts[:5])}",
        "conflict",
        {"conflicts": conflicts, "messages": said[:100]},
    )


def _counted(paths: int) -> str:
    return "1 path conflicts" if paths == 1 else f"{paths} paths conflict"


def _preview_merge(context: Context, ref: str, ff: FastForward = "auto", **_: Any) -> Preview:
    repository = open_repository(context)
    result = _result(repository, ref, ff)
    if result.how == "up_to_date":
        return Preview(f"{ref} is merged already")
    ours = result.head.commit
    diff = repository.git.raw("diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", ours, result.tree)
    calls = [plain_call("read-tree", "-m", "-u", ours, result.tree)]
    if result.how == "merge":
        calls.insert(0, plain_call("commit-tree", result.tree, "-p", ours, "-p", result.theirs))
    new = result.theirs if result.how == "fast_forward" else "COMMIT"
    calls.append(plain_call("update-ref", result.head.branch or "HEAD", new, ours))
    return Preview(f"merge {ref} ({result.how.replace('_', ' ')})", shown(diff), tuple(calls))


@looking
def _capture_merge(context: Context, ref: str, ff: FastForward = "auto", **_: Any) -> dict[str, Any]:
    repository = open_repository(context)
    try:
        new = _result(repository, ref, ff).tree
    except Failure:  # the attempt itself will say so, and changes nothing
        new = head_of(repository).commit
    return moving.capture(context, repository, new)


@taking_back
def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    done = outputs or {}
    to = Head(before["branch"], done["commit"]) if done and done["how"] != "up_to_date" else None
    return moving.undo(context, before, done.get("index_sha256", ""), to)


@capability(
    "git.merge",
    effect="idempotent",
    risks=("moves the branch", "replaces files of the working tree"),
    preview=_preview_merge,
    capture=_capture_merge,
    undo=_undo,
    foreign=("conflicts", "messages"),
    own=("commit", "previous", "how", "index_sha256"),
    preconditions=("program git",),
)
def merge(
    context: Context,
    ref: Annotated[str, Doc("commit or branch to merge into the current branch")],
    ff: Annotated[FastForward, Doc("fast-forward where possible, only so, or never")] = "auto",
    subject: Annotated[str, Doc("first line of the message; default: Merge REF")] = "",
    body: Annotated[str, Doc("text after the subject")] = "",
    trailers: Annotated[dict[str, str] | None, Doc("lines `Name: value` at the end of the message")] = None,
    origin: Annotated[bool, Doc("add the trailers Planrunner-Run and Planrunner-Task")] = False,
    author: Annotated[str, Doc("such as Ana <ana@example.org>; default: who commits")] = "",
) -> Merged:
    """Merge a branch into the current one.

    Where both changed the same lines it fails with the class `conflict` and the outputs `conflicts` and `messages`;
    branch, index and files are as before. Local changes in the way fail with `dirty`.
    """
    repository = open_repository(context)
    noted = Record(context, slot(context)).read()
    if noted.get("to") and moving.is_done(repository, noted, Head(*noted["to"])):
        how = "merge" if noted["commits"][1] != noted["to"][1] else "fast_forward"
        return Merged(noted["to"][1], noted["commits"][0], how, index.digest(repository.index_path), [], [])
    must_be_calm(repository)
    result = _result(repository, ref, ff)
    head, new = result.head, result.tree
    if result.how == "merge":
        message = composed(context, subject or f"Merge {ref}", body, trailers or {}, origin)
        people = identities(context, repository, author)
        new = make(repository, result.tree, [head.commit, result.theirs], message, people)
    if result.how != "up_to_date":
        moving.go(context, repository, result.tree, Head(head.branch, new), f"merge {ref}: {result.how}")
    return Merged(new, head.commit, result.how, index.digest(repository.index_path), [], [])
