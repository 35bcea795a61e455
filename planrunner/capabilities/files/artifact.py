"""``files.artifact``: what a task kept, of this run or another one, put into the working directory."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.inputs import text
from planrunner.capabilities.files.snapshot import folders_above, stored_part
from planrunner.capabilities.files.verb import Plan, Verb, kept, undone
from planrunner.files.beneath import Beneath
from planrunner.files.changes import AS_IT_COMES, Change, Planned
from planrunner.files.walk import CHUNK, FileState, state_of
from planrunner.knowledge.archives import MOST, RefusedEntry, check_link, parts_of

Json = Any


class Put(NamedTuple):
    changed: Annotated[bool, Doc("false where everything was there already")]
    path: Annotated[str, Doc("where it stands now; of several files their folder")]
    artifact: Annotated[str, Doc("the version that was taken, such as `etl/report/table@3`; empty for one of this run")]
    sha256: Annotated[str, Doc("the digest of its content; of several files the digest of theirs")]
    files: Annotated[int, Doc("how many files it holds")]


def _records(context: Context, artifact: Json) -> list[dict[str, Json]]:
    """The records of what is meant: of one artifact, or of all that a task kept. Raises Failure."""
    if isinstance(artifact, str):
        return list(context.version(text("artifact", artifact)))
    records = list(_inside(artifact))
    if not records:
        raise Failure(
            "`artifact` is the address of one, such as `plan/task/name@last`, or that of a task before this one:"
            " `{{ tasks.TASK.artifacts.NAME }}`, `{{ tasks.TASK.artifacts }}`"
        )
    return records


def _inside(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict) and isinstance(value.get("sha256"), str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _inside(each)


def _put(artifact: Json, path: str = "") -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        if path not in ("", "."):
            tree.writable(path)  # what may not be written is not looked for
        records = _records(context, artifact)
        one = len(records) == 1
        changes: list[Change] = []
        for record in records:
            own = str(record.get("path") or record.get("name") or "")
            place = path or own if one else "/".join(part for part in (path, own) if part)
            changes += _changes(context, tree, record, place)
        differing = [change for change in changes if change.before != change.after]
        above = folders_above(tree, differing) if differing else []
        digests = [str(record["sha256"]) for record in records]
        digest = digests[0] if one else hashlib.sha256("\n".join(digests).encode()).hexdigest()
        ref = ", ".join(str(record["ref"]) for record in records if record.get("ref"))
        files = sum(change.after is not None and change.after.kind == "file" for change in changes)
        where = path or (str(records[0].get("path") or records[0].get("name") or "") if one else ".")
        return Planned((*above, *differing), Put(bool(differing), where, ref, digest, files)._asdict())

    return plan


def _changes(context: Context, tree: Beneath, record: dict[str, Json], path: str) -> Iterator[Change]:
    """What stands at a path afterwards: the file, or what the folder held, over what is there. Raises Failure."""
    digest = str(record["sha256"])
    parts = [] if path in ("", ".") else tree.writable(path)
    if record.get("type") == "directory":
        try:
            yield from _unpacked(context, tree, parts, digest)
        except (tarfile.TarError, RefusedEntry) as error:
            raise Failure(f"the folder that was kept is not written out: {error}") from None
        return
    if not parts:
        raise Failure("`path` says where the file is to stand")
    hashed, length = hashlib.sha256(), 0
    for data in kept(context, digest)():
        hashed.update(data)
        length += len(data)
    if hashed.hexdigest() != digest:
        raise Failure(f"the content of artifact {digest[:12]} is damaged: `planrunner artifacts verify` looks at all")
    state = FileState("file", 0o755 if record.get("executable") else 0o644, length, digest)
    yield Change("/".join(parts), state_of(tree, parts), state, kept(context, digest))


def _unpacked(context: Context, tree: Beneath, parts: list[str], digest: str) -> Iterator[Change]:
    with context.artifact(digest) as stored, tarfile.open(fileobj=stored, mode="r:") as archive:
        if parts and state_of(tree, parts) is None:
            yield Change("/".join(parts), None, FileState("folder", AS_IT_COMES))
        for count, member in enumerate(archive, 1):
            tree.go_on()
            steps = parts_of(member.name)
            place = "/".join([*parts, *steps])
            before = state_of(tree, tree.writable(place))
            if count > MOST or not (member.isdir() or member.isreg() or member.issym()):
                raise RefusedEntry(f"`{member.name}` is not a file, a folder or a link, or there are too many")
            if member.isdir():
                if before is None or before.kind != "folder":
                    yield Change(place, before, FileState("folder", AS_IT_COMES))
            elif member.issym():
                check_link(steps, member.linkname)
                yield Change(place, before, FileState("link", target=member.linkname))
            else:
                hashed = hashlib.sha256()
                opened = archive.extractfile(member)
                while opened is not None and (data := opened.read(CHUNK)):
                    hashed.update(data)
                mode = 0o755 if member.mode & 0o100 else 0o644
                source = partial(stored_part, context, digest, member.offset_data, member.size)
                yield Change(place, before, FileState("file", mode, member.size, hashed.hexdigest()), source)


_PUT = Verb("files.artifact", _put)


@capability(
    "files.artifact",
    effect="idempotent",
    risks=("replaces files",),
    preview=_PUT.preview,
    capture=_PUT.capture,
    undo=undone,
)
def artifact(
    context: Context,
    artifact: Annotated[
        Any,
        Doc(
            "what to take: `{{ tasks.TASK.artifacts.NAME }}` or `{{ tasks.TASK.artifacts }}` of this run,"
            " or the address of one of another run, `plan/task/name@last`, `@3` or `@RUN`"
        ),
    ],
    path: Annotated[
        str, Doc("where to put it, inside the working directory; else where it was", form="file-written")
    ] = "",
) -> Put:
    """Put a kept artifact into the working directory: a file, a folder, or all that a task kept.

    A folder is written over what is there; what else lies in it stays. Without a version the newest one is taken of an
    attempt that did not fail. Fails where the content is not kept any more.
    """
    return Put(**_PUT.act(context, artifact=artifact, path=path))
