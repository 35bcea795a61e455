"""The file scopes of a policy, for files that are read by a whole path and not below an opened folder."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Failure
from planrunner.plan.judging import cure
from planrunner.plan.rights import path as right_to
from planrunner.plan.rights import restricts
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planrunner.plan.rights import Level, Right


def require_readable(rights: Iterable[Level], top: str, path: str) -> None:
    """Raises Failure (policy) where a file, or anything in a folder, may not be read: by its name, or by what links on
    the way lead to. ``top`` is the directory of the run, from which scopes count."""
    levels = [level for level in rights if restricts(level.data, "files")]
    if not levels:
        return
    for root, whole in ((os.path.abspath(top), os.path.abspath(path)), (os.path.realpath(top), os.path.realpath(path))):
        _require(levels, _place(root, whole))
        for folder, _, names in os.walk(whole):
            for name in names:
                _require(levels, _place(root, os.path.join(folder, name)))


def _place(root: str, whole: str) -> str:
    inside = whole == root or whole.startswith(f"{root.rstrip('/')}/")
    return os.path.relpath(whole, root) if inside else whole


def _require(levels: Iterable[Level], place: str) -> None:
    right = right_to(levels, "read", place)
    if right.verdict == "deny":
        raise Failure(_refusal(place, right), "policy", rule=right.rule)


def _refusal(place: str, right: Right) -> str:
    level = right.level
    assert level is not None
    whose = level.file or level.name
    if right.entry:
        return f"{whose} denies {place}: `policy: {{files: {{deny: …}}}}` has `{right.entry}`"
    return f"{whose} does not allow reading {place}; {cure(level, f'{place} under policy: files: read')}"
