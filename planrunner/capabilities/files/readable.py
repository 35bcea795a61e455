"""The file scopes of a policy, for files that are opened by their whole path and not below an opened folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from planrunner.capabilities.contract import Context, Failure
from planrunner.plan.patterns import placed
from planrunner.plan.policy_checks import Wanted, refusal
from planrunner.plan.rights import Level, restricts
from planrunner.plan.rights import path as right_to

Way = Literal["read", "write"]


def require_let(context: Context, path: str, way: Way = "read", whole: bool = True) -> None:
    """Raises Failure (policy) where a call may not read, or write, what stands at a path, relative to its directory;
    with ``whole`` all that lies in a folder counts."""
    if context.call.rights:
        directory = context.call.directory
        top = context.services.directory() if context.services is not None else directory
        require_within(context.call.rights, (top, os.path.join(directory, path)), way, whole)


def require_within(rights: Iterable[Level], place: tuple[str, str], way: Way = "read", whole: bool = True) -> None:
    """Raises Failure (policy) where a file, or (``whole``) anything in a folder, may not be read, or written: by its
    name, or by what links on the way lead to. ``place`` is the directory of the run, from which scopes count, and the
    path."""
    levels = [level for level in rights if restricts(level.data, "files")]
    if not levels:
        return
    top, path = place
    if "\0" in path:
        raise Failure(f"{path!r} is no path")
    for root, named in ((os.path.abspath(top), os.path.abspath(path)), (os.path.realpath(top), os.path.realpath(path))):
        _require(levels, way, placed(root, named, ()))
        for folder, inner, names in os.walk(named) if whole else ():
            for name in names if way == "read" else (*inner, *names):
                _require(levels, way, placed(root, folder, (name,)))


def _require(levels: Iterable[Level], way: Way, place: str) -> None:
    right = right_to(levels, way, place)
    if right.verdict == "deny":
        raise Failure(refusal(Wanted.file(way, place), right), "policy", rule=right.rule)
