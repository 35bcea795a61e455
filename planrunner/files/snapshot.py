"""How files were, listed in a manifest, and putting them back: each path all at once, or not at all.

A manifest is one artifact, the content of each file another one; the same tree has the same manifest, and so the same
digest. Names that are not UTF-8 keep their bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple, Protocol

from planrunner.errors import NotFound
from planrunner.failures import Failure
from planrunner.files.beneath import FOLDER, Beneath
from planrunner.files.staged import write_new
from planrunner.files.walk import READ, FileState
from planrunner.records import Struct

FORMAT = 1


class Store(Protocol):
    """Contents by their SHA-256."""

    def keep_bytes(self, data: bytes) -> dict[str, str | int]: ...

    def read(self, sha256: str) -> bytes: ...

    def open(self, sha256: str) -> IO[bytes]: ...


class Manifest(Struct):
    """``patterns`` are what it was limited to (empty: everything but what git ignores); the paths of ``states`` are
    relative to the directory of the run, in order. A state of the kind ``unread`` was there and could not be kept."""

    patterns: tuple[str, ...]
    states: dict[str, FileState]


class Changes(NamedTuple):
    """Paths in which two manifests differ, in order."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def keep(store: Store, manifest: Manifest) -> str:
    """Keep a manifest and give its digest. Raises StorageFailed."""
    rows: list[list[Any]] = []
    for path, (kind, mode, size, sha256, target) in sorted(manifest.states.items()):
        facts: dict[str, list[Any]] = {"file": [mode, size, sha256], "folder": [mode], "link": [target]}
        rows.append([path, kind, *facts.get(kind, ())])
    whole = {"format": FORMAT, "patterns": manifest.patterns, "pieces": rows}
    return str(store.keep_bytes(json.dumps(whole, separators=(",", ":")).encode("ascii"))["sha256"])


def read(store: Store, digest: str) -> Manifest:
    """The manifest of a digest. Raises NotFound, StorageFailed where it is damaged."""
    whole = json.loads(store.read(digest))
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise NotFound(f"artifact `{digest}` is not a manifest that this version reads")
    states = {
        path: FileState(kind, target=rest[0]) if kind == "link" else FileState(kind, *rest)
        for path, kind, *rest in whole["pieces"]
    }
    return Manifest(tuple(whole["patterns"]), states)


def changes(before: Manifest, after: Manifest) -> Changes:
    """What differs. Of what could not be read on either side nothing is known, so it is left out."""
    old, new = before.states, after.states
    both = [path for path in new if path in old and "unread" not in (old[path].kind, new[path].kind)]
    return Changes(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(path for path in both if old[path] != new[path])),
        tuple(sorted(old.keys() - new.keys())),
    )


_IS_KIND = {"file": stat.S_ISREG, "folder": stat.S_ISDIR, "link": stat.S_ISLNK}


def difference(tree: Beneath, path: str, wanted: FileState) -> str:
    """How a path differs from its earlier state: ``missing`` (also where a link is on the way), ``kind``, ``differs``
    (its content) or ``mode``; empty where it is the same."""
    try:
        with tree.parent(path.split("/")) as (folder, name):
            present = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not _IS_KIND[wanted.kind](present.st_mode):
                return "kind"
            if wanted.kind == "link":
                return "" if os.readlink(name, dir_fd=folder) == wanted.target else "differs"
            if wanted.kind == "file" and (present.st_size != wanted.size or _digest(folder, name) != wanted.sha256):
                return "differs"
            return "" if stat.S_IMODE(present.st_mode) == wanted.mode else "mode"
    except (FileNotFoundError, NotADirectoryError, Failure):
        return "missing"


def _digest(folder: int, name: str) -> str:
    try:
        with os.fdopen(os.open(name, READ, dir_fd=folder), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError:
        return ""


def _free(path: str) -> None:
    """Anything may change."""


def remove(tree: Beneath, path: str, permit: Callable[[str], None] = _free) -> bool:
    """Remove what was not there; a folder that still holds something stays. True when something changed. Raises
    OSError, Failure where the way to it leads through a link, and whatever ``permit`` raises for the path."""
    permit(path)
    with tree.parent(path.split("/")) as (folder, name):
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except IsADirectoryError:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return False
        os.fsync(folder)
    return True


def restore(
    tree: Beneath,
    path: str,
    wanted: FileState,
    source: Callable[[], Iterable[bytes]] = tuple,
    permit: Callable[[str], None] = _free,
) -> bool:
    """Give a path its earlier state, with the bytes of ``source``; folders above it are made. True when something
    changed. Raises OSError, Failure where the way to it leads through a link or the bytes are not those of its digest,
    and whatever ``permit`` raises, which is asked before something changes."""
    how = difference(tree, path, wanted)
    if not how:
        return False
    permit(path)
    with tree.parent(path.split("/"), make=True) as (folder, name):
        if wanted.kind == "folder":
            if how != "mode":
                if how == "kind":
                    os.unlink(name, dir_fd=folder)
                os.mkdir(name, dir_fd=folder)
            inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            try:
                os.fchmod(inner, wanted.mode)
            finally:
                os.close(inner)
        elif how == "mode":
            os.chmod(name, wanted.mode, dir_fd=folder)
        else:
            _put(folder, name, wanted, source)
        os.fsync(folder)
    return True


def _put(folder: int, name: str, wanted: FileState, source: Callable[[], Iterable[bytes]]) -> None:
    """Make a file or link beside its place, and rename it there: readers see the old one or the new one."""
    staged = f".{os.fsdecode(os.fsencode(name)[:200])}.{wanted.sha256[:12] or wanted.kind}.planrunner"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(staged, dir_fd=folder)
    try:
        if wanted.kind == "link":
            os.symlink(wanted.target, staged, dir_fd=folder)
        elif write_new(folder, staged, wanted.mode, source()) != wanted.sha256 and wanted.sha256:
            raise Failure("its saved copy is missing or damaged")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.rmdir(name, dir_fd=folder)
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder)
        raise
