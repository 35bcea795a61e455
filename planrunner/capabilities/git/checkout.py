"""Moving HEAD with index and working tree from one commit to another, and back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
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
    found = {}
    for facts, path in zip(items[::2], items[1::2], strict=True):
        old_mode, new_mode, old_digest, new_digest, _ = facts.lstrip(":").split(" ")
        sides = _side(old_mode, old_digest), _side(new_mode, new_digest)
        if MODULE not in (sides[0].mode, sides[1].mode):
            found[path] = sides
    return found


def _side(mode: str, digest: str) -> Side:
    return Side("", "") if mode == "000000" else Side(mode, digest)


def keep(context: Context, repository: Repository, paths: dict[str, tuple[Side, Side]]) -> dict[str, Any]:
    """What stands at the paths and which folders lead to them, as data for ``put_back``."""
    files = {path: _kept(context, repository, path, old) for path, (old, _) in paths.items()}
    folders = {folder for path in paths for folder in _above(path)}
    modes = {folder: _folder_mode(os.path.join(repository.top, folder)) for folder in sorted(folders)}
    return {"files": files, "folders": modes}


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _folder_mode(path: str) -> int | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISDIR(found.st_mode) else None


def _kept(context: Context, repository: Repository, path: str, old: Side) -> dict[str, Any] | None:
    found = _look(repository, path)
    if found is None:
        return None
    if isinstance(found, str):
        return {"link": found}
    data, mode = found
    if old.digest and _digest(data, old.digest) == old.digest:
        return {"blob": old.digest, "mode": mode}
    return {"sha256": context.keep(data, artifact_name(path), "git-file")["sha256"], "mode": mode}


def _look(repository: Repository, path: str) -> tuple[bytes, int] | str | None:
    """Content and permissions of a file, the target of a link, None where nothing stands. Raises Failure for others."""
    place = os.path.join(repository.top, path)
    if not _is_reached(repository, path):
        return None
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if os.path.islink(place):
            return os.readlink(place)
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            return None
        raise Failure(f"{path} is neither a file nor a link")
    with open(handle, "rb") as file:
        return file.read(), stat.S_IMODE(mode)


def _is_reached(repository: Repository, path: str) -> bool:
    """Whether all that leads to a path are folders, none of them a link."""
    return all(_folder_mode(os.path.join(repository.top, folder)) is not None for folder in _above(path))


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
    """Change files and the copied index from one commit to another; local changes that are in no way stay. Raises
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
    changed = [path for path in before["files"] if not _stands(repository, path, before["files"][path])]
    foreign = [path for path in changed if not _is_ours(repository, path, new.get(path))]
    if foreign:
        raise Failure(f"changed since, so left as they are: {', '.join(sorted(foreign)[:5])}", "moved")
    require(context, "write", repository.top, changed)
    for path in sorted(changed, reverse=True):
        _remove(repository, path)
    _remove_folders(repository, before["folders"])
    for some in _portions(sorted(changed)):
        contents = _contents(context, repository, [before["files"][path] for path in some])
        for path, content in zip(some, contents, strict=True):
            _write(repository, path, before, content)


def _portions(paths: list[str]) -> list[list[str]]:
    return [paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE)]


def _stands(repository: Repository, path: str, was: dict[str, Any] | None) -> bool:
    found = _look(repository, path)
    if found is None or was is None:
        return found is None and was is None
    if isinstance(found, str) or "link" in was:
        return found == was.get("link")
    data, mode = found
    if mode != was["mode"]:
        return False
    if "blob" in was:
        return bool(_digest(data, was["blob"]) == was["blob"])
    return bool(sha256(data).hexdigest() == was["sha256"])


def _contents(context: Context, repository: Repository, wanted: list[dict[str, Any] | None]) -> list[bytes]:
    """The contents of files as they were, empty for what was not a file."""
    blobs = list(dict.fromkeys(was["blob"] for was in wanted if was and "blob" in was))
    held = dict(zip(blobs, _blobs(repository, blobs), strict=True)) if blobs else {}
    found = []
    for was in wanted:
        if was is not None and "sha256" in was:
            with context.artifact(was["sha256"]) as kept:
                found.append(kept.read())
        else:
            found.append(held.get(was["blob"], b"") if was and "blob" in was else b"")
    return found


def _blobs(repository: Repository, digests: list[str]) -> list[bytes]:
    """What git holds under these digests."""
    data = repository.git.run("cat-file", "--batch", stdin="".join(f"{each}\n" for each in digests).encode()).stdout
    found, at = [], 0
    for digest in digests:
        end = data.index(b"\n", at)
        facts = data[at:end].split(b" ")
        if len(facts) != 3 or facts[1] != b"blob":
            raise Failure(f"git does not hold {digest[:12]} any more")
        size = int(facts[2])
        found.append(data[end + 1 : end + 1 + size])
        at = end + size + 2
    return found


def _is_ours(repository: Repository, path: str, sides: tuple[Side, Side] | None) -> bool:
    """Whether what stands at a path is what the change put there, or the beginning of it."""
    found = _look(repository, path)
    if found is None:
        return not os.path.isfile(os.path.join(repository.top, path))
    if sides is None or not sides[1].mode:
        return False
    data = os.fsencode(found) if isinstance(found, str) else found[0]
    if _digest(data, sides[1].digest) == sides[1].digest:
        return (sides[1].mode == LINK) == isinstance(found, str)
    if isinstance(found, str):
        return False
    wanted = repository.git.raw("cat-file", "blob", sides[1].digest)
    if wanted.startswith(found[0]):
        return True
    smudged = repository.git.raw("cat-file", "--filters", f"--path={path}", sides[1].digest)
    return smudged.startswith(found[0])


def _remove(repository: Repository, path: str) -> None:
    if _is_reached(repository, path):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(os.path.join(repository.top, path))


def _remove_folders(repository: Repository, folders: dict[str, int | None]) -> None:
    for folder in sorted((name for name, mode in folders.items() if mode is None), reverse=True):
        with contextlib.suppress(OSError):  # it holds something else, or is gone already
            os.rmdir(os.path.join(repository.top, folder))


def _write(repository: Repository, path: str, before: dict[str, Any], content: bytes) -> None:
    was = before["files"][path]
    if was is None:
        return
    for folder in _above(path):
        place = os.path.join(repository.top, folder)
        if _folder_mode(place) is None:
            os.mkdir(place)
            os.chmod(place, before["folders"][folder] or 0o755)
    place = os.path.join(repository.top, path)
    if "link" in was:
        os.symlink(was["link"], place)
        return
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), was["mode"])


def recover(context: Context, repository: Repository, noted: dict[str, Any]) -> None:
    """Undo what an attempt left halfway that is now issued again."""
    if noted.get("tree"):
        put_back(context, repository, noted["tree"], differing(repository, *noted["commits"]))


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
    record, name = Record(context, slot(context)), slot(context)
    if noted := record.read():
        _recover(context, repository, noted)
    head = head_of(repository)
    if head == to:
        return
    paths = differing(repository, head.commit, new)
    scopes.require_moved(repository, paths)
    must_not_hide(repository, paths)
    copy = index.Copy(repository, name)
    copy.take()
    note: dict[str, Any] = {"commits": [head.commit, new], "branch": head.branch, "to": list(to)}
    try:
        copy.hold()
        note["before"] = index.says(repository, copy.path)
        note["tree"] = keep(context, repository, paths)
        record.write(note)
        _change_files(repository, record, copy, (head.commit, new))
        record.write({**note, "index": index.says(repository, copy.path)})
        copy.publish()
    finally:
        copy.clear()
    _set_head(context, repository, head, to, what)


def _change_files(repository: Repository, record: Record, copy: index.Copy, commits: tuple[str, str]) -> None:
    try:
        move_files(repository, copy, *commits)
    except Failure as failure:
        if failure.failure == "dirty":  # nothing was touched
            record.drop()
        raise


def _recover(context: Context, repository: Repository, noted: dict[str, Any]) -> None:
    """Files back to what they were, unless the index says that the move was made: then HEAD is all that may be left."""
    index.Copy(repository, slot(context)).clear()
    if index.says(repository, repository.index_path) == noted["before"]:
        recover(context, repository, noted)


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
