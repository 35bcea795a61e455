"""Manifests: what there was below a directory at one time, as one artifact; the content of each file is another one.

The same tree has the same manifest, and so the same digest. Names that are not UTF-8 keep their bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.errors import NotFound

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
        raise NotFound(f"artifact `{digest}` is no manifest that this version reads")
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
