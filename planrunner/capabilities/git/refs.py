"""Branches and tags: ``git.branch``, ``git.switch``, ``git.tag`` and ``git.tag_delete``."""

from __future__ import annotations

import time
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import checkout
from planrunner.capabilities.git.command import checked_reference, plain_call, shown
from planrunner.capabilities.git.commit import identities
from planrunner.capabilities.git.index import says
from planrunner.capabilities.git.repository import (
    Head,
    Record,
    Repository,
    commit_of,
    head_of,
    looking,
    making,
    move,
    must_be_calm,
    object_of,
    open_repository,
    reason,
    short,
    slot,
    taking_back,
    value_of,
)


class Branch(NamedTuple):
    name: Annotated[str, Doc("short name")]
    commit: Annotated[str, Doc("what it points to")]
    created: Annotated[bool, Doc("false where the branch was there already")]
    previous: Annotated[str, Doc("the branch HEAD was on; empty when detached")]
    index_sha256: Annotated[str, Doc("SHA-256 of the entries of the index after a switch; empty without one")]


class Switched(NamedTuple):
    branch: Annotated[str, Doc("empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit of HEAD now")]
    previous: Annotated[str, Doc("the branch HEAD was on; empty when detached")]
    index_sha256: Annotated[str, Doc("SHA-256 of the entries of the index")]


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
    head = checkout.must_have_commits(repository)
    diff = repository.git.raw("diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", head.commit, commit)
    last = ("symbolic-ref", "HEAD", branch) if branch else ("update-ref", "--no-deref", "HEAD", commit, head.commit)
    files = (plain_call("read-tree", "-m", "-u", head.commit, commit),) if diff else ()
    return shown(diff), (*files, plain_call(*last))


@looking
def _capture_branch(
    context: Context, name: str, start: str = "HEAD", switch: bool = False, exists: str = "fail"
) -> dict[str, Any]:
    repository = open_repository(context)
    full = f"refs/heads/{checked_reference(name)}"
    before: dict[str, Any] = {"slot": slot(context), "made": full}
    if switch:
        new = value_of(repository, full) or commit_of(repository, start)
        before["move"] = checkout.capture(context, repository, new)
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
    changed = "move" in before and checkout.undo(context, before["move"], done.get("index_sha256", ""), to)
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
    return {**checkout.capture(context, repository, to.commit), "to": list(to)}


@taking_back
def _undo_switch(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    done = outputs or {}
    went = done and (done["previous"] != done["branch"] or done["branch"] == "")
    return checkout.undo(context, before, done.get("index_sha256", ""), Head(*before["to"]) if went else None)


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

    Unrelated local changes are kept. Where others are, or files that git does not know, it fails with the class
    `dirty` and touches nothing.
    """
    repository = open_repository(context)
    to = _destination(repository, ref, detach)
    noted = Record(context, slot(context)).read()
    previous = str(noted.get("branch", head_of(repository).branch)).removeprefix("refs/heads/")
    return Switched(to.name, to.commit, previous, _switch(context, repository, to))


def _switch(context: Context, repository: Repository, to: Head) -> str:
    noted = Record(context, slot(context)).read()
    if not checkout.is_done(repository, noted, to):
        must_be_calm(repository)
        head = checkout.must_have_commits(repository)
        if to.branch and to.branch != head.branch:
            _must_not_be_used(repository, to.branch)
        checkout.go(context, repository, to.commit, to, f"switch to {to.name or to.commit[:12]}")
    return says(repository, repository.index_path)


def _destination(repository: Repository, ref: str, detach: bool) -> Head:
    if detach:
        return Head("", commit_of(repository, ref))
    full = f"refs/heads/{checked_reference(ref)}"
    commit = value_of(repository, full)
    if not commit:
        raise Failure(f"unknown branch `{ref}`", "unknown_ref")
    return Head(full, commit)


class Tag(NamedTuple):
    name: Annotated[str, Doc("name of the tag")]
    object: Annotated[str, Doc("what the tag points to: the commit, or an object of its own with a message")]
    commit: Annotated[str, Doc("the commit that is tagged")]


class Deleted(NamedTuple):
    name: Annotated[str, Doc("name of the tag")]
    object: Annotated[str, Doc("what it pointed to; empty where the tag did not exist")]


def _full(name: str) -> str:
    return f"refs/tags/{checked_reference(name, 'tag')}"


def _preview_tag(context: Context, name: str, ref: str = "HEAD", message: str = "", author: str = "") -> Preview:
    repository = open_repository(context)
    commit, full = commit_of(repository, ref), _full(name)
    made = (plain_call("mktag"),) if message else ()
    target = "TAG" if message else commit
    return Preview(
        f"tag {commit[:12]} as {name}", "", (*made, plain_call("update-ref", full, target, "0" * len(commit)))
    )


@looking
def _capture_tag(context: Context, name: str, **_: Any) -> dict[str, Any]:
    open_repository(context)  # one that the attempt will refuse is noted so
    return {"slot": slot(context), "tag": _full(name)}


@taking_back
def _undo_tag(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository = open_repository(context)
    record = Record(context, before["slot"])
    new = record.read().get("object") or (outputs or {}).get("object", "")
    now = value_of(repository, before["tag"]) if new else ""
    if now not in ("", new):
        raise Failure(
            f"the tag {short(before['tag'])} points elsewhere since: expected {new[:12]}, found {now[:12]}", "moved"
        )
    if now:
        move(repository, before["tag"], "", now, reason(context, "undo tag"))
    record.drop()
    return now != ""


@capability(
    "git.tag",
    effect="idempotent",
    risks=("adds a tag to the repository",),
    preview=_preview_tag,
    capture=_capture_tag,
    undo=_undo_tag,
    own=("*",),
    preconditions=("program git",),
)
def tag(
    context: Context,
    name: Annotated[str, Doc("name of the tag")],
    ref: Annotated[str, Doc("commit to tag")] = "HEAD",
    message: Annotated[str, Doc("makes an annotated tag")] = "",
    author: Annotated[str, Doc("of an annotated tag, such as Ana <ana@example.org>; default: who commits")] = "",
) -> Tag:
    """Tag a commit. A tag that is there already fails with the class `exists`; it is never moved."""
    repository = open_repository(context)
    full, record = _full(name), Record(context, slot(context))
    now, noted = value_of(repository, full), record.read()
    if now and now == noted.get("object"):
        return Tag(name, now, noted["commit"])
    if now:
        raise Failure(f"the tag {name} exists already, at {now[:12]}", "exists")
    commit = commit_of(repository, ref)
    made = _annotated(context, repository, name, commit, message, author) if message else commit
    with making(f"the tag {name}"), record.holding({"object": made, "commit": commit}):
        move(repository, full, made, "", reason(context, f"tag {name}"))
    return Tag(name, made, commit)


def _annotated(context: Context, repository: Repository, name: str, commit: str, message: str, author: str) -> str:
    """Make the object of an annotated tag that nothing points to yet."""
    if "\0" in message:
        raise Failure("`message` holds a null character")
    people = identities(context, repository, author)
    tagger = f"{people['GIT_AUTHOR_NAME']} <{people['GIT_AUTHOR_EMAIL']}> {int(time.time())} +0000"
    text = f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message.strip()}\n"
    return repository.git.run("mktag", stdin=text.encode()).text.strip()


def _preview_delete(context: Context, name: str) -> Preview:
    repository = open_repository(context)
    old = value_of(repository, _full(name))
    calls = (plain_call("update-ref", "-d", _full(name), old),) if old else ()
    return Preview(f"delete the tag {name}" if old else f"unknown tag {name}", "", calls)


@taking_back
def _undo_delete(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository = open_repository(context)
    record = Record(context, before["slot"])
    old = record.read().get("object") or (outputs or {}).get("object", "")
    now = value_of(repository, before["tag"]) if old else ""
    if now not in ("", old):
        raise Failure(f"tag {short(before['tag'])} was created again since: expected none, found {now[:12]}", "moved")
    if old and not now:
        object_of(repository, old, "object")
        move(repository, before["tag"], old, "", reason(context, "undo tag_delete"))
    record.drop()
    return bool(old != now)


@capability(
    "git.tag_delete",
    effect="idempotent",
    risks=("removes a tag from the repository",),
    preview=_preview_delete,
    capture=_capture_tag,
    undo=_undo_delete,
    preconditions=("program git",),
)
def tag_delete(context: Context, name: Annotated[str, Doc("name of the tag")]) -> Deleted:
    """Delete a tag here; none of the name is as good."""
    repository = open_repository(context)
    record, old = Record(context, slot(context)), value_of(repository, _full(name))
    if not old:
        return Deleted(name, record.read().get("object", ""))
    if target := repository.git.maybe("symbolic-ref", "--quiet", _full(name)):
        raise Failure(f"the tag {name} is another name for {short(target)}, and no undo could make it that again")
    with record.holding({"object": old}):
        move(repository, _full(name), "", old, reason(context, f"delete tag {name}"))
    return Deleted(name, old)
