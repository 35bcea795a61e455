"""The file scopes of a policy: which paths a call may read and write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.files.listing import repository_around
from planrunner.files.match import placed
from planrunner.plan.policy_checks import refusal
from planrunner.plan.rights import Access, Level, restricts
from planrunner.plan.rights import path as right_to

BRANCHES = ".branches"
"""The folder of the working trees of candidates (``branch.fork``)."""


def ground(context: Context) -> str:
    """The folder from which the scopes of a policy count for a call."""
    here = context.call.directory
    return ground_of(context.services.directory() if context.services is not None else here, here)


def ground_of(top: str, here: str) -> str:
    """The folder from which the scopes of a policy count for what is done in ``here``: the working directory ``top`` of
    the run or, in the tree of a candidate, what stands for it there."""
    first, *rest = os.path.relpath(os.path.abspath(here), os.path.abspath(top)).split("/")
    if first != BRANCHES or not rest:
        return top
    inner = _in_repository(top)
    return os.path.join(top, first, rest[0], *(inner if rest[1 : len(inner) + 1] == inner else ()))


def tree_of(top: str, here: str) -> str:
    """The tree of the candidate in whose tree ``here`` is, below the working directory ``top`` of the run; empty where
    it is in none."""
    ground = os.path.relpath(ground_of(top, here), top).split("/")
    return os.path.join(top, *ground[:2]) if ground[0] == BRANCHES else ""


def _in_repository(top: str) -> list[str]:
    """The way from the top of the repository around a folder to it: the trees of candidates hold all of that."""
    real, around = os.path.realpath(top), repository_around(top)
    return os.path.relpath(real, around).split("/") if around not in ("", real) else []


class Scope(NamedTuple):
    """``levels`` judge paths from the working directory of the run. ``grounds`` are that directory and the one of the
    call, as they are named and, where that differs, as links lead to them: a path has to be let by both, so that what
    is refused by its words alone stays refused whatever links there are."""

    levels: tuple[Level, ...]
    grounds: tuple[tuple[str, str], ...]

    def require(self, way: Literal["read", "write"], parts: Sequence[str]) -> None:
        """Raises Failure (policy) for a path that may not be read, or written."""
        for root, directory in self.grounds:
            place = placed(root, directory, parts)
            right = right_to(self.levels, way, place)
            if right.verdict == "deny":
                raise Failure(refusal(Access.file(way, place), right), rule=right.rule)

    def allows(self, way: Literal["read", "write"], path: str) -> bool:
        """Whether a path, from the directory of the call, may be read or written."""
        places = {placed(root, directory, (path,)) for root, directory in self.grounds}
        return all(right_to(self.levels, way, place).verdict != "deny" for place in places)


def scope_in(context: Context) -> Scope | None:
    """What a policy leaves of the files to a call; None where it says nothing about them."""
    return scope_between(context.call.rights, ground(context), context.call.directory)


def scope_between(rights: Iterable[Level], top: str, here: str) -> Scope | None:
    """The scope of whatever is done in the folder ``here`` for a run whose working directory is ``top``; None where no
    policy says anything about files."""
    levels = tuple(level for level in rights if restricts(level.data, "files"))
    if not levels:
        return None
    top = ground_of(top, here)
    named = (os.path.abspath(top), os.path.abspath(here))
    real = (os.path.realpath(top), os.path.realpath(here))
    alike = placed(*named, ()) == placed(*real, ())
    return Scope(levels, (named,) if alike else (named, real))


Way = Literal["read", "write"]


def require_let(context: Context, path: str, way: Way = "read", whole: bool = True) -> None:
    """Raises Failure (policy) where a call may not read, or write, what stands at a path, relative to its directory;
    with ``whole`` all that lies in a folder counts."""
    if context.call.rights:
        place = os.path.join(context.call.directory, path)
        require_within(context.call.rights, (ground(context), place), way, whole)


def require_within(rights: Iterable[Level], place: tuple[str, str], way: Way = "read", whole: bool = True) -> None:
    """Raises Failure (policy) where a file, or (``whole``) anything in a folder, may not be read, or written: by its
    name, or by what links on the way lead to. ``place`` is the directory of the run, from which scopes count, and the
    path."""
    levels = [level for level in rights if restricts(level.data, "files")]
    if not levels:
        return
    top, path = place
    if "\0" in path:
        raise Failure(f"{path!r} is not a path")
    for root, named in ((os.path.abspath(top), os.path.abspath(path)), (os.path.realpath(top), os.path.realpath(path))):
        _require(levels, way, placed(root, named, ()))
        for folder, inner, names in os.walk(named) if whole else ():
            for name in names if way == "read" else (*inner, *names):
                _require(levels, way, placed(root, folder, (name,)))


def _require(levels: Iterable[Level], way: Way, place: str) -> None:
    right = right_to(levels, way, place)
    if right.verdict == "deny":
        raise Failure(refusal(Access.file(way, place), right), rule=right.rule)
