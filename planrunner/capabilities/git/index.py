"""The index of a working tree: changed in a copy, put in place as a whole, and ``git.add``."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import scopes
from planrunner.capabilities.git.command import Refused, checked_path, plain_call, shown
from planrunner.capabilities.git.repository import (
    Record,
    Repository,
    looking,
    open_repository,
    slot,
    taking_back,
    tree_of_head,
)

ABSENT = ""


def digest(path: str) -> str:
    """SHA-256 of an index; empty where it does not exist. Raises Failure for what is not a file."""
    try:
        return sha256(_read(path)[0]).hexdigest()
    except FileNotFoundError:
        return ABSENT


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """The bytes of an index. A pipe in its place is not waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a socket could not even be opened
        raise _no_file(path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        os.close(handle)
        raise _no_file(path)
    with open(handle, "rb") as file:
        return file.read(), info


def _no_file(path: str) -> Failure:
    return Failure(f"{path} is not a file, so no index can be read")


def keep(context: Context, repository: Repository) -> dict[str, Any]:
    """Keep the index; gives what ``put_back`` and ``must_have_been`` need. The time stays with it: git compares it with
    those of files."""
    copy = Copy(repository, f"{slot(context)}-kept")
    copy.take()
    try:
        data, found = _read(copy.path)
        kept = context.keep(data, "index", "git-index")
        content = says(repository, copy.path)
    except FileNotFoundError:
        return {"sha256": ABSENT, "says": ABSENT}
    finally:
        copy.clear()
    return {
        "sha256": kept["sha256"],
        "mtime": found.st_mtime_ns,
        "mode": found.st_mode & 0o777,
        "says": content,
    }


class Copy:
    """A copy of the index to work on, beside it. ``name`` is the visit's, so that leftovers of a kill are found."""

    __slots__ = ("_held", "_lock", "_real", "before", "path")

    def __init__(self, repository: Repository, name: str) -> None:
        self._real = repository.index_path
        self._lock = self._real + ".lock"
        self._held = f"{self._real}.{name}.held.planrunner"
        self.path = f"{self._real}.{name}.planrunner"
        self.before = ABSENT

    def take(self) -> None:
        """Copy the index, after what an earlier attempt left behind is gone."""
        self.clear()
        try:
            data, found = _read(self._real)
        except FileNotFoundError:
            return
        self.before = sha256(data).hexdigest()
        self.write(data, found.st_mtime_ns, found.st_mode & 0o777)

    def write(self, data: bytes, mtime: int | None = None, mode: int = 0o644) -> None:
        """Give the copy this content."""
        with open(self.path, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        if mtime is not None:
            os.utime(self.path, ns=(mtime, mtime))

    def hold(self) -> None:
        """Keep others from writing the index until the copy is published or cleared. Raises Failure (transient) where
        it is no longer what was copied, or another process is writing it: another attempt may find it at rest."""
        if self._is_held():
            return
        with open(self._held, "wb"):
            pass
        try:
            os.link(self._held, self._lock)
        except FileExistsError:
            self.clear()
            raise Failure(
                f"another git process has the index, or one was killed: {self._lock} exists", "transient"
            ) from None
        if digest(self._real) != self.before:
            self.clear()
            raise Failure("the index was changed meanwhile", "transient")

    def publish(self) -> None:
        """Put the copy in the place of the index. Raises Failure as ``hold`` does."""
        self.hold()
        os.rename(self.path, self._real)
        self.clear()

    def remove(self) -> None:
        """Take the index away where it did not exist before. Raises Failure as ``hold`` does."""
        self.hold()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._real)
        self.clear()

    def clear(self) -> None:
        """Remove the copy and the locks that are provably ours."""
        if self._is_held():
            os.unlink(self._lock)
        for leftover in (self._held, self.path, self.path + ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)

    def _is_held(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samefile(self._held, self._lock)
        return False


def must_have_been(before: dict[str, Any], began: str | None) -> None:
    """Raises Failure (moved) where the index said something else when the task began (None: unknown) than when it was
    kept."""
    if began is not None and began != before["says"]:
        raise Failure(
            "another process changed the index before this task did, so it is left as it is: "
            "unstage with `git restore --staged`",
            "moved",
        )


def says(repository: Repository, path: str) -> str:
    """SHA-256 of the entries of an index, without the times of files; empty where there is not an index."""
    git = repository.git._replace(directory=repository.top)
    entries = git.raw("ls-files", "--stage", "-v", "-z", index=path)
    return sha256(entries).hexdigest() if entries or os.path.exists(path) else ABSENT


def can_put_back(repository: Repository, before: dict[str, Any], after: str) -> bool:
    """Whether the index has to be put back; raises Failure (moved) where something else changed it since. ``after`` is
    what the index said after the change of the task."""
    now = says(repository, repository.index_path)
    if now == before["says"]:
        return False
    if now != after:
        raise Failure("the index was changed since, so it is left as it is", "moved")
    return True


def put_back(context: Context, repository: Repository, before: dict[str, Any], name: str) -> None:
    """Put the index that was kept in place."""
    copy = Copy(repository, name)
    copy.take()
    if before["sha256"] == ABSENT:
        copy.remove()
        return
    with context.artifact(before["sha256"]) as kept:
        copy.write(kept.read(), before.get("mtime"), before.get("mode", 0o644))
    copy.publish()


FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
_IGNORED = "The following paths are ignored by one of your .gitignore files:\n"
_NAMED = 5
"""Ignored files that a message names."""


File = Annotated[str, Doc("", form="file-read")]
"""A file or folder, of which what stands there is taken over or shown."""


class Staged(NamedTuple):
    changed: Annotated[bool, Doc("whether the index is another than before")]
    entries: Annotated[list[str], Doc("every path that is staged now, against HEAD")]
    index_sha256: Annotated[str, Doc("SHA-256 of the entries of the index")]


def _preview(context: Context, paths: list[str], force: bool = False) -> Preview:
    repository = open_repository(context)
    copy = Copy(repository, f"{slot(context)}-preview")
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
    return {"slot": slot(context), "top": repository.top, "index": keep(context, repository)}


@taking_back
def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    """Let the index say what it said before, unless something else changed it since."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    noted, done = record.read(), outputs or {}
    Copy(repository, before["slot"]).clear()
    if not noted and not done.get("changed"):
        return False
    must_have_been(before["index"], noted.get("before"))
    stale = can_put_back(repository, before["index"], noted["after"] if noted else done["index_sha256"])
    if stale:
        put_back(context, repository, before["index"], before["slot"])
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
    copy = Copy(repository, slot(context))
    copy.take()
    try:
        began = says(repository, copy.path)
        stage(repository, paths, copy.path, force)
        after = says(repository, copy.path)
        changed = after != began
        record = Record(context, slot(context))
        noted = record.read()
        if changed:
            with record.holding({"before": began, **noted, "after": after}):
                copy.publish()
        else:
            changed = bool(noted) and noted["after"] == after
    finally:
        copy.clear()
    entries = repository.git.items("diff-index", "--cached", "--name-only", "-z", tree_of_head(repository), "--")
    return Staged(changed, [os.fsencode(path).decode("utf-8", "replace") for path in entries], after)


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
    paths = list(itertools.takewhile(lambda line: not line.startswith("hint: "), rest.strip("\n").split("\n")))
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    listed = ", ".join(f"`{path}`" for path in paths[:_NAMED]) + more
    are, them = ("are", "them") if len(paths) > 1 else ("is", "it")
    return Failure(f"{listed} {are} ignored; `git.add` with `force: true` takes {them}")
