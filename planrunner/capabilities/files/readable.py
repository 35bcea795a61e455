"""The file scopes of a policy, for files that are read by a whole path and not below an opened folder."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Failure
from planrunner.plan.filepaths import placed
from planrunner.plan.judging import Wanted, refusal
from planrunner.plan.rights import path as right_to
from planrunner.plan.rights import restricts
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planrunner.plan.rights import Level


def require_readable(rights: Iterable[Level], top: str, path: str) -> None:
    """Raises Failure (policy) where a file, or anything in a folder, may not be read: by its name, or by what links on
    the way lead to. ``top`` is the directory of the run, from which scopes count."""
    levels = [level for level in rights if restricts(level.data, "files")]
    if not levels:
        return
    for root, whole in ((os.path.abspath(top), os.path.abspath(path)), (os.path.realpath(top), os.path.realpath(path))):
        _require(levels, placed(root, whole, ()))
        for folder, _, names in os.walk(whole):
            for name in names:
                _require(levels, placed(root, folder, (name,)))


def _require(levels: Iterable[Level], place: str) -> None:
    right = right_to(levels, "read", place)
    if right.verdict == "deny":
        raise Failure(refusal(Wanted.file("read", place), right), "policy", rule=right.rule)
