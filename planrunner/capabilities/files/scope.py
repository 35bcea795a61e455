"""The file scope of a call: which paths below its directory a policy lets it read and write."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Failure
from planrunner.plan.judging import cure
from planrunner.plan.rights import path as right_to
from planrunner.plan.rights import restricts
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from planrunner.capabilities.contract import Context
    from planrunner.plan.rights import Level, Right


class Scope(NamedTuple):
    """``levels`` judge paths from the working directory of the run, below which ``steps`` lead to that of the call."""

    levels: tuple[Level, ...]
    steps: tuple[str, ...] = ()

    def require(self, way: Literal["read", "write"], parts: Sequence[str]) -> None:
        """Raises Failure (policy) for a path that may not be read, or written."""
        place = "/".join((*self.steps, *parts))
        right = right_to(self.levels, way, place or ".")
        if right.verdict == "deny":
            raise Failure(_refusal(way, place, right), "policy", rule=right.rule)

    def allows(self, way: Literal["read", "write"], path: str) -> bool:
        """Whether a path, from the directory of the call, may be read or written."""
        return right_to(self.levels, way, "/".join((*self.steps, path))).verdict != "deny"


def scope_of(context: Context) -> Scope | None:
    """The scope of a call; None where no policy says anything about files."""
    levels = tuple(level for level in context.call.rights if restricts(level.data, "files"))
    if not levels:
        return None
    directory = context.call.directory
    top = context.services.directory() if context.services is not None else directory
    between = os.path.relpath(os.path.realpath(directory), os.path.realpath(top))
    return Scope(levels, tuple(part for part in between.split("/") if part != "."))


def _refusal(way: str, place: str, right: Right) -> str:
    level = right.level
    assert level is not None
    whose = level.file or level.name
    if right.entry:
        return f"{whose} denies {place}: `policy: {{files: {{deny: …}}}}` has `{right.entry}`"
    known = level.data["files"][way]
    listed = [known] if isinstance(known, str) else list(known)
    line = f"policy: {{files: {{{way}: [{', '.join([*map(str, listed), place])}]}}}}"
    verb = "reading" if way == "read" else "writing"
    return f"{whose} does not allow {verb} {place}; {cure(level, line)}"
