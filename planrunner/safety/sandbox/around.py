"""Folders without some of what lies in them, for Landlock, which can only let in and never take out again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from planrunner.safety.sandbox.scopes import beneath


def parted(paths: Iterable[str], without: Sequence[str]) -> list[str]:
    """The paths, a folder that holds one of ``without`` taken apart into what else is in it. Nothing new can be made in
    a folder that was taken apart."""
    return [part for path in paths for part in _parts(path, without)]


def _parts(path: str, without: Sequence[str]) -> Iterator[str]:
    if any(beneath(path, each) for each in without):
        return
    if os.path.islink(path):
        return  # what it leads to is let in by its own path or not at all
    if not any(beneath(each, path) for each in without):
        yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return
    for name in names:
        yield from _parts(os.path.join(path, name), without)
