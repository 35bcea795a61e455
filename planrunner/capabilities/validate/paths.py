"""Paths as plans name them: one or several, names or patterns, below the working directory or not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob
from typing import Annotated

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc
from planrunner.capabilities.files.readable import require_let

Pattern = Annotated[str, Doc("", form="file-pattern")]
"""A file by its name, or a pattern of files."""

_MOST = 1_000
"""Files that patterns may fit."""


def names(value: str | list[str]) -> list[str]:
    """One name or several. Raises Failure for one that a tool could take for an option."""
    found = [value] if isinstance(value, str) else [str(each) for each in value]
    if wrong := next((name for name in found if name.startswith(("-", "@"))), None):
        raise Failure(f"{wrong} is no path; one that begins so is written ./{wrong}", "policy", rule="files.option")
    return found


def require_paths(context: Context, paths: Sequence[str]) -> None:
    """Raises Failure for the first path where nothing stands: no tool has anything to say about it."""
    for path in paths:
        if not os.path.lexists(os.path.join(context.call.directory, path)):
            raise Failure(f"there is no file or folder {path}")


def found_files(context: Context, patterns: Sequence[str]) -> list[str]:
    """The files that names and patterns stand for, in their order. Raises Failure where one stands for none."""
    directory, found = context.call.directory, []
    for pattern in patterns:
        whole = os.path.isfile(os.path.join(directory, pattern))
        files = [pattern] if whole else sorted(glob(pattern, root_dir=directory, recursive=True))
        files = [path for path in files if os.path.isfile(os.path.join(directory, path))]
        if not files:
            raise Failure(f"there is no file {pattern}")
        found += files
    if len(found) > _MOST:
        raise Failure(f"{len(found)} files fit, and {_MOST} may")
    for path in found:
        require_let(context, path)
    return list(dict.fromkeys(found))


def relative(context: Context, path: str) -> str:
    """A path as people write it: relative where it lies below the working directory."""
    directory = os.path.realpath(context.call.directory)
    whole = os.path.realpath(os.path.join(directory, path))
    return os.path.relpath(whole, directory) if whole.startswith(f"{directory.rstrip('/')}/") else path
