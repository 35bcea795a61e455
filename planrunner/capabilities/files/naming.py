"""Names for artifacts out of paths and addresses."""

from __future__ import annotations


def artifact_name(path: str, otherwise: str = "file") -> str:
    """A path as a name that the store takes; ``otherwise`` where nothing is left of it."""
    parts = ["".join(map(_fitting, part)).strip() for part in path.split("/")]
    return "/".join(part for part in parts if part not in ("", ".", "..")) or otherwise


def _fitting(sign: str) -> str:
    return sign if sign.isprintable() and sign != "\\" else "_"
