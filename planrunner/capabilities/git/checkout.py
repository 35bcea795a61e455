"""Moving HEAD with index and working tree from one commit to another, and back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.inputs import artifact_name
from planrunner.capabilities.git import index, scopes
from planrunner.capabilities.git.command import Refused
from planrunner.capabilities.git.index import Copy
from planrunner.capabilities.git.repository import (
    Head,
    Record,
    Repository,
    head_of,
    move,
    open_repository,
    reason,
    short,
    slot,
    value_of,
)
from planrunner.capabilities.git.scopes import require
from planrunner.files.beneath import Beneath
from planrunner.files.snapshot import difference, remove, restore
from planrunner.files.walk import FileState, content, state_at

LINK = "120000"
MODULE = "160000"

_AT_ONCE = 100


class Side(NamedTuple):
    """What a tree has at a path: mode and digest, both empty where it has nothing."""

    mode: str
    digest: str


def differing(repository: Repository, old: str, new: str) -> dict[str, tuple[Side, Side]]:
    """The paths in which two trees differ, from the top of the working tree. Submodules are left out."""
    items = repository.git.items(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-abbrev", old, new
    )
    paths = {}
    for facts, path in zip(items[::2], items[1::2], strict=True):
        old_mode, new_mode, old_digest, new_digest, _ = facts.lstrip(":").split(" ")
        if MODULE not in (old_mode, new_mode):
            sides = ((old_mode, old_digest), (new_mode, new_digest))
            old_side, new_side = (Side("", "") if mode == "000000" else Side(mode, digest) for mode, digest in sides)
            paths[path] = old_side, new_side
    return paths


def keep(context: Context, repository: Repository, paths: dict[str, tuple[Side, Side]]) -> dict[str, Any]:
    """What stands at the paths and which folders lead to them, as data for ``put_back``."""
    with Beneath(repository.top) as tree:
        files = {path: _kept(context, tree, path, old) for path, (old, _) in paths.items()}
        folders = {
            folder: state_at(tree, folder) for folder in sorted({above for path in paths for above in _above(path)})
        }
    modes = {folder: state.mode if state and state.kind == "folder" else None for folder, state in folders.items()}
    return {"files": files, "folders": modes}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _kept(context: Context, tree: Beneath, path: str, old: Side) -> dict[str, Any] | None:
    state, data = _present(tree, path)
    if state is None:
        return None
    if state.kind == "link":
        return {"link": state.target}
    if old.digest and _digest(data, old.digest) == old.digest:
        return {"blob": old.digest, "mode": state.mode}
    return {"sha256": context.keep(data, artifact_name(path), "git-file")["sha256"], "mode": state.mode}


def _present(tree: Beneath, path: str) -> tuple[FileState | None, bytes]:
    """The file or link at a path, with its content or target; None where there is neither. Raises Failure for a pipe
    and the like."""
    state = state_at(tree, path)
    if state is None or state.kind == "folder":
        return None, b""
    if state.kind == "link":
        return state, os.fsencode(state.target)
    return state, content(tree, path.split("/"), sys.maxsize)


def _digest(data: bytes, like: str) -> str:
    digest = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


def must_not_hide(repository: Repository, paths: dict[str, tuple[Side, Side]]) -> None:
    """Raises Failure (dirty) where a new file would take the place of one that git does not know, be it ignored."""
    known = set(repository.git.items("ls-files", "-z", "--full-name", "--", repository.top))
    bad = [
        path
        for path, (_, new) in paths.items()
        if new.mode and path not in known and _in_the_way(repository, path, known)
    ]
    if bad:
        raise Failure(f"untracked files would be overwritten: {', '.join(sorted(bad)[:5])}", "dirty")


def _in_the_way(repository: Repository, path: str, known: set[str]) -> bool:
    for place in [*_above(path), path]:
        whole = os.path.join(repository.top, place)
        if place not in known and os.path.lexists(whole) and (place == path or not os.path.isdir(whole)):
            return not os.path.isdir(whole) or os.path.islink(whole) or _holds_unknown(repository, place, known)
    return False


def _holds_unknown(repository: Repository, folder: str, known: set[str]) -> bool:
    for inside, folders, files in os.walk(os.path.join(repository.top, folder)):
        below = os.path.relpath(inside, repository.top)
        links = [name for name in folders if os.path.islink(os.path.join(inside, name))]
        if any(f"{below}/{name}" not in known for name in (*files, *links)):
            return True
    return False


def move_files(repository: Repository, copy: Copy, old: str, new: str) -> None:
    """Change files and the copied index from one commit to another; unrelated local changes are kept. Raises
    Failure (dirty) before anything is touched where others are."""
    repository.git.run("update-index", "-q", "--refresh", index=copy.path, ok=(0, 1))
    try:
        repository.git.run("read-tree", "-m", "-u", old, new, index=copy.path)
    except Refused as refused:
        if "not uptodate" in refused.said or "would be overwritten" in refused.said or "would be lost" in refused.said:
            raise Failure(f"local changes would be overwritten: {refused}", "dirty") from None
        raise


def put_back(
    context: Context, repository: Repository, before: dict[str, Any], new: dict[str, tuple[Side, Side]]
) -> None:
    """Make files what they were. Raises Failure (moved) before anything is touched where a file is neither what it was,
    nor what the change made of it, nor something that a kill left halfway, and Failure (policy) where one may not be
    written."""
    with Beneath(repository.top) as tree:
        changed = [path for path, was in before["files"].items() if not _stands(tree, path, was)]
        foreign = [path for path in changed if not _is_ours(repository, tree, path, new.get(path))]
        if foreign:
            raise Failure(f"changed since, so left as they are: {', '.join(sorted(foreign)[:5])}", "moved")
        require(context, "write", repository.top, changed)
        for path in sorted(changed, reverse=True):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, Failure):
                remove(tree, path)
        for folder in sorted((name for name, mode in before["folders"].items() if mode is None), reverse=True):
            # it holds something else, or is gone already
            with contextlib.suppress(OSError, Failure), tree.parent(folder.split("/")) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        paths = sorted(path for path in changed if before["files"][path] is not None)
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            contents = _contents(context, repository, [before["files"][path] for path in some])
            for path, data in zip(some, contents, strict=True):
                for folder in _above(path):
                    state = FileState("folder", before["folders"][folder] or 0o755)
                    if difference(tree, folder, state) == "missing":
                        restore(tree, folder, state)
                was = before["files"][path]
                if "link" in was:
                    restore(tree, path, FileState("link", target=was["link"]))
                else:
                    state = FileState("file", was["mode"], len(data), sha256(data).hexdigest())
                    restore(tree, path, state, partial(iter, (data,)))


def _stands(tree: Beneath, path: str, was: dict[str, Any] | None) -> bool:
    state, data = _present(tree, path)
    if state is None or was is None:
        return state is None and was is None
    if state.kind == "link" or "link" in was:
        return state.kind == "link" and state.target == was.get("link")
    if state.mode != was["mode"]:
        return False
    return bool(_digest(data, was["blob"]) == was["blob"]) if "blob" in was else bool(state.sha256 == was["sha256"])


def _contents(context: Context, repository: Repository, wanted: list[dict[str, Any]]) -> list[bytes]:
    """The contents of files as they were, empty for links."""
    digests = list(dict.fromkeys(was["blob"] for was in wanted if "blob" in was))
    blobs = dict(zip(digests, _blobs(repository, digests), strict=True)) if digests else {}
    contents = []
    for was in wanted:
        if "sha256" in was:
            with context.artifact(was["sha256"]) as file:
                contents.append(file.read())
        else:
            contents.append(blobs.get(was.get("blob", ""), b""))
    return contents


def _blobs(repository: Repository, digests: list[str]) -> list[bytes]:
    """What git holds under these digests."""
    data = repository.git.run("cat-file", "--batch", stdin="".join(f"{each}\n" for each in digests).encode()).stdout
    result, at = [], 0
    for digest in digests:
        end = data.index(b"\n", at)
        facts = data[at:end].split(b" ")
        if len(facts) != 3 or facts[1] != b"blob":
            raise Failure(f"git does not hold {digest[:12]} any more")
        size = int(facts[2])
        result.append(data[end + 1 : end + 1 + size])
        at = end + size + 2
    return result


def _is_ours(repository: Repository, tree: Beneath, path: str, sides: tuple[Side, Side] | None) -> bool:
    """Whether what stands at a path is what the change put there, or the beginning of it."""
    state, data = _present(tree, path)
    if state is None:
        return not os.path.isfile(os.path.join(repository.top, path))
    if sides is None or not sides[1].mode:
        return False
    digest = sides[1].digest
    if _digest(data, digest) == digest:
        return (sides[1].mode == LINK) == (state.kind == "link")
    if state.kind == "link":
        return False
    if repository.git.raw("cat-file", "blob", digest).startswith(data):
        return True
    return repository.git.raw("cat-file", "--filters", f"--path={path}", digest).startswith(data)


def capture(context: Context, repository: Repository, new: str) -> dict[str, Any]:
    """What has to be known to come back from a move to the commit ``new``."""
    head = must_have_commits(repository)
    paths = differing(repository, head.commit, new)
    scopes.require_moved(repository, paths)
    return {
        "slot": slot(context),
        "branch": head.branch,
        "commit": head.commit,
        "index": index.keep(context, repository),
        "tree": keep(context, repository, paths),
        "new": new,
    }


def must_have_commits(repository: Repository) -> Head:
    """Where HEAD stands. Raises Failure where nothing is committed yet."""
    head = head_of(repository)
    if not head.commit:
        raise Failure(f"HEAD has no commit yet: {short(head.branch)} is empty, so commit something first")
    return head


def go(context: Context, repository: Repository, new: str, to: Head, what: str) -> None:
    """Move to the commit ``new`` with HEAD as in ``to``: files and index first, then the references. Issued again, what
    an earlier attempt left halfway is put back before. Raises Failure (policy) where a file may not be written, or
    rules over plans."""
    record = Record(context, slot(context))
    if noted := record.read():
        _recover(context, repository, noted)
    head = head_of(repository)
    if head == to:
        return
    paths = differing(repository, head.commit, new)
    scopes.require_moved(repository, paths)
    must_not_hide(repository, paths)
    note: dict[str, Any] = {"commits": [head.commit, new], "branch": head.branch, "to": list(to)}
    if paths:
        _move_tree(context, repository, record, note, paths)
    else:  # the index stays as it is, byte for byte
        record.write(note)
    _set_head(context, repository, head, to, what)


def _move_tree(
    context: Context, repository: Repository, record: Record, note: dict[str, Any], paths: dict[str, tuple[Side, Side]]
) -> None:
    """Move the files and the index between the two commits of a note. Raises Failure (dirty) before anything is touched
    where local changes are in the way."""
    copy = index.Copy(repository, slot(context))
    copy.take()
    try:
        copy.hold()
        note["before"] = index.says(repository, copy.path)
        note["tree"] = keep(context, repository, paths)
        record.write(note)
        try:
            move_files(repository, copy, *note["commits"])
        except Failure as failure:
            if failure.failure == "dirty":  # nothing was touched
                record.drop()
            raise
        record.write({**note, "index": index.says(repository, copy.path)})
        copy.publish()
    finally:
        copy.clear()


def _recover(context: Context, repository: Repository, noted: dict[str, Any]) -> None:
    """Files back to what they were, unless the index says that the move was made: then HEAD is all that may be left."""
    index.Copy(repository, slot(context)).clear()
    if noted.get("tree") and index.says(repository, repository.index_path) == noted["before"]:
        put_back(context, repository, noted["tree"], differing(repository, *noted["commits"]))


def is_done(repository: Repository, noted: dict[str, Any], to: Head) -> bool:
    """Whether an earlier attempt of the visit has come to its end."""
    return bool(noted) and noted.get("to") == list(to) and head_of(repository) == to


def _set_head(context: Context, repository: Repository, old: Head, to: Head, what: str) -> None:
    why = reason(context, what)
    if to.branch and to.branch == old.branch:
        move(repository, to.branch, to.commit, old.commit, why)
    elif to.branch:
        repository.git.run("symbolic-ref", "-m", why, "HEAD", to.branch)
    elif old.branch or old.commit != to.commit:
        repository.git.run("update-ref", "--no-deref", "-m", why, "HEAD", to.commit, old.commit)


def undo(context: Context, before: dict[str, Any], index_after: str, to: Head | None) -> bool:
    """Back to where the capture was taken: HEAD, its branch, the index and every file that was changed.
    ``to`` is where the outputs say that the task went; None where they do not say that it went anywhere. False where
    it did not. Raises Failure (moved) before anything is touched where HEAD moved on since."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    noted = record.read()
    index.Copy(repository, before["slot"]).clear()
    if noted:
        to = Head(*noted["to"])
    if to is None:
        return False
    was = Head(before["branch"], before["commit"])
    now = _must_be_between(repository, noted, was, to)
    index_after = index_after or noted.get("index", "?")
    stale = index.can_put_back(repository, before["index"], index_after)
    put_back(context, repository, before["tree"], differing(repository, before["commit"], before["new"]))
    if stale:
        index.put_back(context, repository, before["index"], before["slot"])
    if now != was:
        _set_head(context, repository, now, was, "undo")
    record.drop()
    return True


def _must_be_between(repository: Repository, noted: dict[str, Any], was: Head, to: Head) -> Head:
    """Where HEAD stands. Raises Failure (moved) unless it went from ``was`` to ``to`` by this task alone, and nowhere
    since."""
    now = head_of(repository)
    began = Head(noted["branch"], noted["commits"][0]) if noted else was
    if began != was:
        raise Failure(
            f"HEAD had moved when this task began: expected {_told(was)}, found {_told(began)}. Nothing was taken "
            "back: look with `git reflog` which one to go back to",
            "moved",
        )
    if now not in (was, to):
        raise Failure(
            f"HEAD has moved since: expected {_told(to)}, where this task left it, found {_told(now)}. Nothing was "
            f"taken back: bring it back with `{_way(to)}` and roll back again, or leave it as it is",
            "moved",
        )
    if was.branch and (stands := value_of(repository, was.branch)) not in (was.commit, to.commit):
        raise Failure(
            f"{short(was.branch)} has moved since: expected {was.commit[:12]}, found {stands[:12] or 'nothing'}. "
            "Nothing was taken back",
            "moved",
        )
    return now


def _told(head: Head) -> str:
    return f"{short(head.branch) if head.branch else 'a detached HEAD'} at {head.commit[:12] or 'no commit'}"


def _way(to: Head) -> str:
    return f"git switch {to.name}" if to.branch else f"git switch --detach {to.commit[:12]}"
