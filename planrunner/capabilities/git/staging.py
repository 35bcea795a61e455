"""Staging: contents of files are taken over into the index."""

from __future__ import annotations

import itertools
import os
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import index, scopes
from planrunner.capabilities.git.command import Refused, plain_call, shown
from planrunner.capabilities.git.names import checked_path
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import Repository, open_repository, slot
from planrunner.capabilities.git.undoing import looking, taking_back

FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
_IGNORED = "The following paths are ignored by one of your .gitignore files:\n"
_NAMED = 5
"""Ignored files that a message names."""


File = Annotated[str, Doc("", form="file-read")]
"""A file or folder, of which what stands there is taken over or shown."""


class Staged(NamedTuple):
    changed: Annotated[bool, Doc("whether the index is another than before")]
    entries: Annotated[list[str], Doc("every path that is staged now, against HEAD")]
    index_sha256: Annotated[str, Doc("SHA-256 of the index")]


def _preview(context: Context, paths: list[str], force: bool = False) -> Preview:
    repository = open_repository(context)
    copy = index.Copy(repository, f"{slot(context)}-preview")
    copy.take()
    try:
        stage(repository, paths, copy.path, force)
        diff = repository.git.raw("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--cached", index=copy.path)
    finally:
        copy.clear()
    call = plain_call("add", "--all", *(("--force",) if force else ()), "--", *paths)
    return Preview(f"stage {', '.join(paths)}", shown(diff), (call,))


@looking
def _capture(context: Context, **_: Any) -> dict[str, Any]:
    repository = open_repository(context)
    return {"slot": slot(context), "top": repository.top, "index": index.keep(context, repository)}


@taking_back
def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    """Put the index back as it was, byte for byte, unless somebody changed it since."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    noted, done = record.read(), outputs or {}
    index.Copy(repository, before["slot"]).clear()
    if not noted and not done.get("changed"):
        return False
    index.must_have_been(before["index"], noted.get("before"), noted.get("said_before", ""))
    stale = index.can_put_back(
        repository, before["index"], noted.get("index") or done["index_sha256"], noted.get("says", "")
    )
    if stale:
        index.put_back(context, repository, before["index"], before["slot"])
    record.drop()
    return stale


@capability(
    "git.add",
    effect="idempotent",
    risks=("changes what the next commit holds",),
    preview=_preview,
    capture=_capture,
    undo=undo,
    preconditions=("program git",),
)
def add(
    context: Context,
    paths: Annotated[list[File], Doc("files and folders, taken literally; `.` is all below the working directory")],
    force: Annotated[bool, Doc("take ignored files too")] = False,
) -> Staged:
    """Stage files as they are now, removed ones included."""
    repository = open_repository(context)
    copy = index.Copy(repository, slot(context))
    copy.take()
    try:
        began = index.says(repository, copy.path)
        stage(repository, paths, copy.path, force)
        new, said = index.digest(copy.path), index.says(repository, copy.path)
        changed = new != index.ABSENT and (copy.before == index.ABSENT or said != began)
        record = Record(context, slot(context))
        noted = record.read()
        if changed:
            first = noted if "before" in noted else {"before": copy.before, "said_before": began}
            with record.holding({**first, "index": new, "says": said}):
                copy.publish()
        else:
            new, changed = copy.before, noted.get("index") == copy.before != ""
    finally:
        copy.clear()
    entries = repository.git.items("diff-index", "--cached", "--name-only", "-z", _head_tree(repository), "--")
    return Staged(changed, [os.fsencode(path).decode("utf-8", "replace") for path in entries], new)


def stage(repository: Repository, paths: list[str], copy: str, force: bool = False) -> None:
    """Take files as they are into a copy of the index, which stays away where it is missing and nothing is staged.
    Raises Failure where one of them is ignored, unless by ``force``, and (policy) where one may not be read."""
    if not paths:
        raise Failure("`paths` names nothing to stage")
    options = ("--all", *(("--force",) if force else ()))
    given = "\0".join(checked_path(path) for path in paths)
    scopes.require_named(repository.git.context, paths)
    scopes.require_changed(repository, copy, paths, ("--others", *(() if force else ("--exclude-standard",))))
    try:
        repository.git.run("add", *options, *FROM_INPUT, stdin=os.fsencode(given), index=copy)
    except Refused as refused:
        raise _ignored(refused.said) or refused from None


def _ignored(said: str) -> Failure | None:
    """What git says about ignored files, in short; None where it says something else."""
    head, _, rest = said.partition(_IGNORED)
    if head.strip() or not rest:
        return None
    found = list(itertools.takewhile(lambda line: not line.startswith("hint: "), rest.strip("\n").split("\n")))
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    listed = ", ".join(f"`{path}`" for path in found[:_NAMED]) + more
    are, them = ("are", "them") if len(found) > 1 else ("is", "it")
    return Failure(f"{listed} {are} ignored; `git.add` with `force: true` takes {them}")


def _head_tree(repository: Repository) -> str:
    """The tree of HEAD, or the empty one before the first commit."""
    found = repository.git.run("rev-parse", "--quiet", "--verify", "HEAD^{tree}", ok=(0, 1)).text.strip()
    return found or repository.git.text("hash-object", "-t", "tree", "--stdin")
