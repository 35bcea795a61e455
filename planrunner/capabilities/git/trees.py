"""Moving a working tree from one commit's files to another's, and back exactly.

Only paths that differ between the two are touched. What stood at each is noted before: content, permissions, links,
and which folders there were. Contents that git holds as they stand are named by their digest, others are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.naming import artifact_name
from planrunner.capabilities.git.command import Refused
from planrunner.capabilities.git.scopes import require

if TYPE_CHECKING:
    from planrunner.capabilities.git.index import Copy
    from planrunner.capabilities.git.repository import Repository


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
    """The contents of files as they were, empty for what was none."""
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
