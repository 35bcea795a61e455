"""Tags: made and deleted."""

from __future__ import annotations

import time
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git.command import plain_call
from planrunner.capabilities.git.identity import identities
from planrunner.capabilities.git.names import checked_reference
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import (
    Repository,
    commit_of,
    making,
    move,
    object_of,
    open_repository,
    reason,
    short,
    slot,
    value_of,
)
from planrunner.capabilities.git.undoing import looking, taking_back


class Tag(NamedTuple):
    name: Annotated[str, Doc("name of the tag")]
    object: Annotated[str, Doc("what the tag points to: the commit, or an object of its own with a message")]
    commit: Annotated[str, Doc("the commit that is tagged")]


class Deleted(NamedTuple):
    name: Annotated[str, Doc("name of the tag")]
    object: Annotated[str, Doc("what it pointed to; empty where there was no such tag")]


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
    return Preview(f"delete the tag {name}" if old else f"there is no tag {name}", "", calls)


@taking_back
def _undo_delete(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository = open_repository(context)
    record = Record(context, before["slot"])
    old = record.read().get("object") or (outputs or {}).get("object", "")
    now = value_of(repository, before["tag"]) if old else ""
    if now not in ("", old):
        raise Failure(f"the tag {short(before['tag'])} was made anew since: expected none, found {now[:12]}", "moved")
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
