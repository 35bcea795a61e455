"""What a candidate changed: ``branch.change`` takes it down, ``branch.apply`` makes it in the working directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.branch.trees import kept_states, states
from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.inputs import artifact_name
from planrunner.capabilities.files.verb import Plan, Verb, kept, read, undone
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, Planned, ways
from planrunner.files.diff import unified
from planrunner.files.walk import FileState, sha256, state_at, state_from, state_of

Json = Any

MOST_FILES = 1_000
"""Files that a candidate may change."""
_SHOWN = 40_000
"""Characters of a diff that are an output; all of it is an artifact."""


class Changed(TypedDict):
    """A file of a candidate: what was there and is now, or null."""

    path: Annotated[str, Doc("", form="file-written")]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Taken(NamedTuple):
    files: Annotated[list[dict[str, Any]], Doc("changed files: {path, before, after}, each state or null")]
    number: Annotated[int, Doc("number of changed files")]
    summary: Annotated[str, Doc("summary of the change in one line")]
    diff: Annotated[str, Doc("unified diff, cut if long")]
    sha256: Annotated[str, Doc("digest of the full diff, an artifact")]


class Applied(NamedTuple):
    changed: Annotated[bool, Doc("false if the files already had this content")]
    files: Annotated[list[str], Doc("paths that were written or removed")]


@capability("branch.change", effect="read", foreign=("diff",), own=("number", "sha256"))
def change(
    context: Context,
    path: Annotated[str, Doc("the folder of the candidate")],
    manifest: Annotated[str, Doc("the output `manifest` of `branch.fork`")],
) -> Taken:
    """Record the changes of a candidate: contents as artifacts, and a diff."""
    before, after = kept_states(context, manifest), states(context, path)
    differ = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if len(differ) > MOST_FILES:
        raise Failure(f"the candidate changed {len(differ):,} files, and at most {MOST_FILES:,} can be applied")
    rows = [{"path": name, "before": _json(before.get(name)), "after": _json(after.get(name))} for name in differ]
    with Beneath(os.path.join(context.call.directory, path), cancelled=context.cancelled) as tree:
        for name in differ:
            _keep(context, tree, name, after.get(name))
    changes = [Change(name, before.get(name), after.get(name), _source(context, after.get(name))) for name in differ]
    with Beneath(context.call.directory, cancelled=context.cancelled) as top:
        summary, diff = unified(changes, lambda name: _earlier(top, name, before[name]))
    whole = context.keep(diff.encode("utf-8", "replace"), "change.diff", "diff")
    return Taken(rows, len(rows), summary, diff[:_SHOWN], str(whole["sha256"]))


def _json(state: FileState | None) -> Json:
    return None if state is None else state.as_json()


def _keep(context: Context, tree: Beneath, name: str, state: FileState | None) -> None:
    if state is not None and state.kind == "file":
        record = context.keep(b"".join(read(tree, name)), artifact_name(name))
        if record["sha256"] != state.sha256:
            raise Failure(f"{name} was changed while it was read", "transient")


def _source(context: Context, state: FileState | None) -> Any:
    return kept(context, state.sha256) if state is not None and state.kind == "file" else None


def _earlier(top: Beneath, name: str, state: FileState) -> Iterable[bytes]:
    """What a file held when the candidates began, as long as the working directory still has it."""
    now = state_at(top, name)
    if now is None or now.kind != "file":
        return ()
    data = b"".join(read(top, name))
    return (data,) if sha256(data) == state.sha256 else ()


def _apply(files: list[dict[str, Any]]) -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        changes = [each for row in files for each in _changes(context, tree, row)]
        paths = [each.path for each in changes if not each.way]
        return Planned(tuple(changes), {"changed": bool(paths), "files": paths})

    return plan


def _changes(context: Context, tree: Beneath, row: dict[str, Json]) -> Iterator[Change]:
    """The changes to one path, with the folders that it needs. Raises Failure (moved) where it was changed since."""
    parts = tree.writable(row["path"])
    before, after = state_from(row["before"]), state_from(row["after"])
    now = state_of(tree, parts)
    if _alike(now, after):
        return
    if not _alike(now, before):
        raise Failure(f"{row['path']} has changed since the candidates started; nothing was applied", "moved")
    if after is None:
        yield Change(row["path"], now, None)
        return
    yield from ways(tree, parts, True)
    if now is not None and after.kind == now.kind == "file" and _runs(now) == _runs(after):
        after = after._replace(mode=now.mode)
    yield Change(row["path"], now, after, _source(context, after))


def _alike(one: FileState | None, other: FileState | None) -> bool:
    """Whether both have the same content; of permissions only that to run counts, as in git."""
    if one is None or other is None:
        return one is other
    return one._replace(mode=0) == other._replace(mode=0) and _runs(one) == _runs(other)


def _runs(state: FileState) -> bool:
    return state.kind == "file" and bool(state.mode & stat.S_IXUSR)


_APPLY = Verb("branch.apply", _apply)


@capability(
    "branch.apply",
    effect="idempotent",
    risks=("replaces and removes files",),
    preview=_APPLY.preview,
    capture=_APPLY.capture,
    undo=undone,
    writes=("files",),
)
def apply(
    context: Context,
    files: Annotated[list[Changed], Doc("the output `files` of `branch.change`")],
) -> Applied:
    """Apply the changes of a candidate to the working directory, all or none.

    It fails with the class `moved` if one of the files has changed since the candidates started.
    """
    return Applied(**_APPLY.act(context, files=files))
