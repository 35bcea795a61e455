"""Branches: made, and switched to."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import moving
from planrunner.capabilities.git.command import plain_call, shown
from planrunner.capabilities.git.index import digest
from planrunner.capabilities.git.names import checked_reference
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import (
    Head,
    Repository,
    commit_of,
    head_of,
    making,
    move,
    must_be_calm,
    open_repository,
    reason,
    short,
    slot,
    value_of,
)
from planrunner.capabilities.git.undoing import looking, taking_back


class Branch(NamedTuple):
    name: Annotated[str, Doc("short name")]
    commit: Annotated[str, Doc("what it points to")]
    created: Annotated[bool, Doc("false where the branch was there already")]
    previous: Annotated[str, Doc("the branch HEAD was on; empty when detached")]
    index_sha256: Annotated[str, Doc("SHA-256 of the index after a switch; empty without one")]


class Switched(NamedTuple):
    branch: Annotated[str, Doc("empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit of HEAD now")]
    previous: Annotated[str, Doc("the branch HEAD was on; empty when detached")]
    index_sha256: Annotated[str, Doc("SHA-256 of the index")]


def _preview_branch(
    context: Context, name: str, start: str = "HEAD", switch: bool = False, exists: str = "fail"
) -> Preview:
    repository = open_repository(context)
    full = checked_reference(name)
    now = value_of(repository, f"refs/heads/{full}") if exists == "use" else ""
    commit = now or commit_of(repository, start)
    calls = [] if now else [plain_call("update-ref", f"refs/heads/{full}", commit, "0" * len(commit))]
    summary = f"{'use' if now else 'make'} the branch {full} at {commit[:12]}"
    if not switch:
        return Preview(summary, "", tuple(calls))
    diff, moves = _move_preview(repository, commit, f"refs/heads/{full}")
    return Preview(f"{summary} and switch to it", diff, (*calls, *moves))


def _move_preview(repository: Repository, commit: str, branch: str) -> tuple[str, tuple[str, ...]]:
    head = moving.must_have_commits(repository)
    diff = repository.git.raw("diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", head.commit, commit)
    last = ("symbolic-ref", "HEAD", branch) if branch else ("update-ref", "--no-deref", "HEAD", commit, head.commit)
    return shown(diff), (plain_call("read-tree", "-m", "-u", head.commit, commit), plain_call(*last))


@looking
def _capture_branch(
    context: Context, name: str, start: str = "HEAD", switch: bool = False, exists: str = "fail"
) -> dict[str, Any]:
    repository = open_repository(context)
    full = f"refs/heads/{checked_reference(name)}"
    before: dict[str, Any] = {"slot": slot(context), "made": full}
    if switch:
        new = value_of(repository, full) or commit_of(repository, start)
        before["move"] = moving.capture(context, repository, new)
    return before


@taking_back
def _undo_branch(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository, done = open_repository(context), outputs or {}
    record = Record(context, f"{before['slot']}-branch")
    made = before["made"]
    new = record.read().get("commit") or (done["commit"] if done.get("created") else "")
    now = value_of(repository, made) if new else ""
    if now not in ("", new):
        raise Failure(
            f"{short(made)} has moved since: expected {new[:12]}, where this task made it, found {now[:12]}. "
            "Nothing was taken back: see with `git log` whose commits it has now",
            "moved",
        )
    went = done.get("index_sha256") and done["previous"] != done["name"]
    to = Head(made, done["commit"]) if went else None
    changed = "move" in before and moving.undo(context, before["move"], done.get("index_sha256", ""), to)
    if now:
        _must_not_be_used(repository, made)
        move(repository, made, "", now, reason(context, "undo branch"))
    record.drop()
    return changed or now != ""


def _must_not_be_used(repository: Repository, branch: str) -> None:
    used = [
        line
        for line in repository.git.text("worktree", "list", "--porcelain").splitlines()
        if line == f"branch {branch}"
    ]
    if used:
        raise Failure(f"{short(branch)} is checked out in a working tree", "moved")


@capability(
    "git.branch",
    effect="idempotent",
    risks=("adds a branch to the repository",),
    preview=_preview_branch,
    capture=_capture_branch,
    undo=_undo_branch,
    preconditions=("program git",),
)
def branch(
    context: Context,
    name: Annotated[str, Doc("its name, such as plan/{{ plan.id }}-{{ run.id }}")],
    start: Annotated[str, Doc("commit it begins at")] = "HEAD",
    switch: Annotated[bool, Doc("switch the working tree to it")] = False,
    exists: Annotated[str, Doc("`fail`, or `use` a branch that is there already")] = "fail",
) -> Branch:
    """Make a branch, and switch to it if asked."""
    if exists not in ("fail", "use"):
        raise Failure(f"`exists` takes fail or use, found {exists}")
    repository = open_repository(context)
    full = checked_reference(name)
    reference = f"refs/heads/{full}"
    record = Record(context, f"{slot(context)}-branch")
    noted, now = record.read(), value_of(repository, reference)
    ours = noted.get("commit", "") != "" and noted["commit"] == now
    if now and not ours and exists == "fail":
        raise Failure(f"the branch {full} exists already, at {now[:12]}", "exists")
    commit, previous = now or commit_of(repository, start), head_of(repository).name
    if not now:
        note = {"commit": commit, "previous": previous}
        with making(f"the branch {short(reference)}"), record.holding(note):
            move(repository, reference, commit, "", reason(context, f"branch: created from {start}"))
    after = _switch(context, repository, Head(reference, commit)) if switch else ""
    return Branch(full, commit, not now or ours, noted.get("previous", previous), after)


def _preview_switch(context: Context, ref: str, detach: bool = False) -> Preview:
    repository = open_repository(context)
    to = _destination(repository, ref, detach)
    diff, calls = _move_preview(repository, to.commit, to.branch)
    return Preview(f"switch to {to.name or to.commit[:12]}", diff, calls)


@looking
def _capture_switch(context: Context, ref: str, detach: bool = False) -> dict[str, Any]:
    repository = open_repository(context)
    to = _destination(repository, ref, detach)
    return {**moving.capture(context, repository, to.commit), "to": list(to)}


@taking_back
def _undo_switch(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    done = outputs or {}
    went = done and (done["previous"] != done["branch"] or done["branch"] == "")
    return moving.undo(context, before, done.get("index_sha256", ""), Head(*before["to"]) if went else None)


@capability(
    "git.switch",
    effect="idempotent",
    risks=("replaces files of the working tree",),
    preview=_preview_switch,
    capture=_capture_switch,
    undo=_undo_switch,
    preconditions=("program git",),
)
def switch(
    context: Context,
    ref: Annotated[str, Doc("branch; with detach any commit")],
    detach: Annotated[bool, Doc("leave HEAD on no branch")] = False,
) -> Switched:
    """Switch the working tree to another branch.

    Local changes that are in no way stay. Where others are, or files that git does not know, it fails with the class
    `dirty` and touches nothing.
    """
    repository = open_repository(context)
    to = _destination(repository, ref, detach)
    noted = Record(context, slot(context)).read()
    previous = str(noted.get("branch", head_of(repository).branch)).removeprefix("refs/heads/")
    return Switched(to.name, to.commit, previous, _switch(context, repository, to))


def _switch(context: Context, repository: Repository, to: Head) -> str:
    noted = Record(context, slot(context)).read()
    if not moving.is_done(repository, noted, to):
        must_be_calm(repository)
        head = moving.must_have_commits(repository)
        if to.branch and to.branch != head.branch:
            _must_not_be_used(repository, to.branch)
        moving.go(context, repository, to.commit, to, f"switch to {to.name or to.commit[:12]}")
    return digest(repository.index_path)


def _destination(repository: Repository, ref: str, detach: bool) -> Head:
    if detach:
        return Head("", commit_of(repository, ref))
    full = f"refs/heads/{checked_reference(ref)}"
    commit = value_of(repository, full)
    if not commit:
        raise Failure(f"there is no branch `{ref}`", "unknown_ref")
    return Head(full, commit)
