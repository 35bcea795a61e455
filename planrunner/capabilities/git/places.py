"""Folders that a capability makes or removes: inside the working directory, reached through no link."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.beneath import scope_in
from planrunner.capabilities.git.names import checked_path


def folder_of(context: Context, path: str) -> str:
    """The absolute path of a folder to make or remove. Raises Failure (policy) for one outside, behind a link, or where
    nothing may be written."""
    parts = [part for part in checked_path(path).split("/") if part not in ("", ".")]
    if not parts:
        raise Failure(
            f"`{path}` is the working directory itself: name a folder to make in it", "policy", rule="files.root"
        )
    if parts[-1].startswith("-"):
        raise Failure(
            f"`{path}` is no folder to make: its name begins with `-`, as options do", "policy", rule="git.option"
        )
    if (scope := scope_in(context)) is not None:
        scope.require("write", parts)
    at = os.path.realpath(context.call.directory)
    for part in parts[:-1]:
        at = os.path.join(at, part)
        if os.path.islink(at):
            raise Failure(f"{path} leads through `{part}`, which is a link", "policy", rule="files.link")
        if not os.path.isdir(at):
            raise Failure(f"{path} has no folder to stand in: {part} is missing")
    return os.path.join(at, parts[-1])


def is_empty_place(place: str) -> bool:
    """Whether nothing at all stands there."""
    return not os.path.lexists(place)
