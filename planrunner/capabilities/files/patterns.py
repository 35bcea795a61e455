"""Patterns for paths: `*` and `?` within a name, `[…]`, and `**` for any number of folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

from planrunner.capabilities.contract import Failure
from planrunner.plan.patterns import through

_MOST = 64
"""Parts of one pattern."""


class Patterns:
    """Several patterns at once, followed name by name, so that only folders are entered that may hold something."""

    __slots__ = ("_hidden", "_parts")

    def __init__(self, patterns: Iterable[str], hidden: bool) -> None:
        self._parts = [_parts(pattern) for pattern in patterns]
        self._hidden = hidden

    def fits(self, path: str) -> bool:
        """Whether the whole path fits one of them."""
        return any(len(parts) in self._follow(parts, path) for parts in self._parts)

    def enters(self, path: str) -> bool:
        """Whether something below the path may fit."""
        return any(min(self._follow(parts, path), default=len(parts)) < len(parts) for parts in self._parts)

    def _follow(self, parts: Sequence[str], path: str) -> set[int]:
        """How far into a pattern the names of the path lead, in all ways there are."""
        at = through({0}, parts)
        for name in path.split("/"):
            after: set[int] = set()
            for place in at:
                if place == len(parts):
                    continue
                if parts[place] == "**":
                    if self._hidden or not name.startswith("."):
                        after.add(place)
                elif self._name_fits(parts[place], name):
                    after.add(place + 1)
            at = through(after, parts)
        return at

    def _name_fits(self, part: str, name: str) -> bool:
        if name.startswith(".") and not (self._hidden or part.startswith(".")):
            return False
        return _pattern(part).match(name) is not None


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if pattern.startswith("/") or ".." in parts:
        raise Failure(f"the pattern {pattern} leads out of the working directory", "policy", rule="files.beneath")
    if not parts or len(parts) > _MOST:
        raise Failure(f"{pattern!r} is no pattern: expected names, `*` and `**` with `/` between them")
    return (*parts, "*") if parts[-1] == "**" else parts  # what lies below a folder is not the folder itself


@lru_cache(maxsize=256)
def _pattern(part: str) -> re.Pattern[str]:
    if part.count("*") > 8:
        raise Failure(f"the pattern {part} has more than 8 stars in one name")
    return re.compile(translate(part))
