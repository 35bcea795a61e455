"""Directories as artifacts: manifests of what there was below one, and archives written out as one.

A manifest is one artifact, the content of each file another one; the same tree has the same manifest, and so the same
digest. Names that are not UTF-8 keep their bytes. Nothing of an archive lands outside its folder, whatever it says.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from planrunner.errors import Hint, NextStep, NotFound, StorageFailed, UsageError

if TYPE_CHECKING:
    from planrunner.knowledge.artifacts import ArtifactStore

FORMAT = 1


class Piece(NamedTuple):
    """One path of a manifest. ``kind`` is file (with ``mode``, ``size`` in bytes and ``sha256``), folder (with
    ``mode``), link (with ``target``), or unread: it was there and could not be kept."""

    kind: str
    mode: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""


class Manifest(NamedTuple):
    """``patterns`` are what it was limited to (empty: everything but what git ignores); the paths of ``pieces`` are
    relative to the directory of the run, in order."""

    patterns: tuple[str, ...]
    pieces: dict[str, Piece]


class Changes(NamedTuple):
    """Paths in which two manifests differ, in order."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def keep(store: ArtifactStore, manifest: Manifest) -> str:
    """Keep a manifest and give its digest. Raises StorageFailed."""
    rows = [[path, *_packed(piece)] for path, piece in sorted(manifest.pieces.items())]
    whole = {"format": FORMAT, "patterns": manifest.patterns, "pieces": rows}
    return str(store.keep_bytes(json.dumps(whole, separators=(",", ":")).encode("ascii"))["sha256"])


def read(store: ArtifactStore, digest: str) -> Manifest:
    """The manifest of a digest. Raises NotFound, StorageFailed where it is damaged."""
    whole = json.loads(store.read(digest))
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise NotFound(f"artifact `{digest}` is not a manifest that this version reads")
    return Manifest(tuple(whole["patterns"]), {row[0]: _unpacked(row[1], row[2:]) for row in whole["pieces"]})


def _packed(piece: Piece) -> list[Any]:
    if piece.kind == "file":
        return ["file", piece.mode, piece.size, piece.sha256]
    if piece.kind == "folder":
        return ["folder", piece.mode]
    return ["link", piece.target] if piece.kind == "link" else [piece.kind]


def _unpacked(kind: str, rest: list[Any]) -> Piece:
    return Piece(kind, target=rest[0]) if kind == "link" else Piece(kind, *rest)


def changes(before: Manifest, after: Manifest) -> Changes:
    """What differs. Of what could not be read on either side nothing is known, so it is left out."""
    old, new = before.pieces, after.pieces
    both = [path for path in new if path in old and "unread" not in (old[path].kind, new[path].kind)]
    return Changes(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(path for path in both if old[path] != new[path])),
        tuple(sorted(old.keys() - new.keys())),
    )


MOST = 1_000_000
"""Entries of one archive."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class _Refused(Exception):
    """An entry that would lead out of the folder, or is neither a file, a folder nor a link."""


def unpack(archive: IO[bytes], target: str) -> int:
    """Write an archive out as the new folder ``target``, all of it or nothing; gives the number of its entries.

    Raises UsageError for a target that is there or cannot be written, and for an archive with entries or links that
    lead out of the folder, devices or pipes; StorageFailed for one that is damaged.
    """
    if os.path.lexists(target):
        raise UsageError(f"`{target}` is there already", "name another place with -o")
    staged = f"{target.rstrip('/')}.{os.getpid()}-{os.urandom(4).hex()}.planrunner"
    try:
        os.mkdir(staged, 0o755)
        try:
            count = _written(archive, staged)
            os.rename(staged, target)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except _Refused as error:
        raise UsageError(f"the archive is not written out: {error}", "`-o -` prints the archive itself") from error
    except tarfile.TarError as error:
        raise StorageFailed(
            f"the archive is damaged: {error}", Hint(NextStep("artifacts verify"), " looks at all")
        ) from error
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror or error}") from error
    return count


def _written(archive: IO[bytes], folder: str) -> int:
    """Files and folders first, each reached without following a link; links after all else is written."""
    root = os.open(folder, _FOLDER)
    links: list[tuple[list[str], str]] = []
    count = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as opened:
            for count, member in enumerate(opened, 1):
                if count > MOST:
                    raise _Refused(f"it has more than {MOST:,} entries")
                parts = _parts(member.name)
                if member.issym():
                    _check_link(parts, member.linkname)
                    links.append((parts, member.linkname))
                elif member.isdir():
                    os.close(_inside(root, parts))
                elif member.isreg():
                    _write_file(root, parts, opened.extractfile(member), member.mode)
                else:
                    raise _Refused(f"`{member.name}` is neither a file, a folder nor a symbolic link")
        for parts, aim in links:
            parent = _inside(root, parts[:-1])
            try:
                os.symlink(aim, parts[-1], dir_fd=parent)
            finally:
                os.close(parent)
    finally:
        os.close(root)
    return count


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or ".." in parts or "\0" in name:
        raise _Refused(f"`{name}` leads out of it")
    return parts


def _check_link(parts: list[str], aim: str) -> None:
    """A link may climb first and descend then, as long as it stays inside."""
    steps = [step for step in aim.split("/") if step not in ("", ".")]
    climbs = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    if aim.startswith("/") or climbs > len(parts) - 1 or ".." in steps[climbs:]:
        raise _Refused(f"the link `{'/'.join(parts)}` leads to `{aim}`, which may lie outside")


def _inside(root: int, parts: list[str]) -> int:
    """The folder of a path below ``root``, made where it is missing, as a descriptor."""
    folder = os.dup(root)
    for part in parts:
        try:
            try:
                os.mkdir(part, 0o755, dir_fd=folder)
            except FileExistsError:
                pass
            inner = os.open(part, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _write_file(root: int, parts: list[str], source: IO[bytes] | None, mode: int) -> None:
    parent = _inside(root, parts[:-1])
    try:
        handle = os.open(parts[-1], _FILE, 0o755 if mode & 0o100 else 0o644, dir_fd=parent)
    finally:
        os.close(parent)
    with os.fdopen(handle, "wb") as target:
        if source is not None:
            shutil.copyfileobj(source, target, 1 << 20)
