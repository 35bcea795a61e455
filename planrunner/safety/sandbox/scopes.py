"""From patterns of files to what can be let into a sandbox: files and folders that are there.

A folder (``build/**``, ``build/``) is let in as it is, and made where it is missing; so is a file that is named. Any
other pattern stands for what fits it now: nothing that a pattern does not name is let in with it. Nothing that a plan
or a task names lies outside the working directory, whatever links lead there; the operator may name such places.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from planrunner.errors import PlanInvalid, UsageError
from planrunner.plan.patterns import path_matches
from planrunner.plan.rights import Level, texts
from planrunner.safety.project import read_settings, unsound
from planrunner.safety.sandbox.confinement import Missing, Refused

MOST = 50_000
"""Files that are looked at for a pattern; a project with more of them names folders."""
EACH = 500
"""Files and folders that are let in or hidden one by one: each costs a mount and an open descriptor, and ordinary users
have 1,024 of these."""
_REPOSITORIES = 3
"""How deep repositories within the project are looked for."""
_OPERATOR = "planrunner.yaml"
_WILD = frozenset("*?")


class Scope(NamedTuple):
    """See the fields of the same names of ``Confinement``."""

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    guarded: tuple[str, ...]
    denied: tuple[str, ...]
    missing: tuple[Missing, ...]


class _Let(NamedTuple):
    """Something to be let in; ``folder`` None where it is there already."""

    path: str
    folder: bool | None = None


def scope(levels: Sequence[Level], root: str, state: str, programs: Iterable[str] = ()) -> Scope:
    """What these levels let in of the working directory and around it. Raises Refused for a pattern that would have too
    many files looked at."""
    root = os.path.realpath(root)
    writable = [_Let(root), *_outside(levels, root, "write")]
    readable = [_Let(root), *_outside(levels, root, "read", "write")]
    denied: list[str] = [os.path.realpath(state)]
    opened = False
    for level in levels:
        files = level.data.get("files") if isinstance(level.data, dict) else None
        if not isinstance(files, dict):
            continue
        read, write = files.get("read"), files.get("write")
        if write is not None or read is not None:
            mine = texts(write if write is not None else read)
            opened = (opened or _Let(root) in writable) and write is not None and any(map(_names_git, mine))
            writable = _both(writable, list(_found(mine, root)))
        if read is not None:
            readable = _both(readable, list(_found((*texts(read), *texts(write)), root)))
        denied += _denied(texts(files.get("deny")), root)
    if len({*denied, *(each.path for each in (*writable, *readable))}) > EACH:
        words = f"more than {EACH} files would be let in or hidden one by one"
        raise Refused(words, "name the folders that they lie in (`docs/**`)", "policy.files")
    guarded = list(_ruling(root))
    held = _around(guarded, root, [each.path for each in writable])
    guarded += () if opened else repositories(root)
    return Scope(
        (*(each.path for each in writable), *held),
        tuple(each.path for each in readable if each.folder is None),
        (*guarded, *programs),
        tuple(denied),
        tuple(Missing(each.path, each.folder) for each in writable if each.folder is not None),
    )


def _ruling(root: str) -> Iterator[str]:
    """The project's file and what it includes. Raises Refused where it is not sound, and nobody can tell."""
    path = f"{root}/{_OPERATOR}"
    if not os.path.lexists(path):
        return
    try:
        included = read_settings(root).files
    except PlanInvalid as error:
        raise Refused(unsound(error)) from None
    except UsageError as error:
        raise Refused(error.message) from None
    yield path
    yield from (f"{root}/{name}" for name in included)


def _around(files: Iterable[str], root: str, writable: Sequence[str]) -> Iterator[str]:
    """The folders around files that may be written to: let in by themselves they can be neither moved nor taken away,
    and with them what rules from within."""
    for path in files:
        folder = os.path.dirname(path)
        while folder != root:
            if any(beneath(folder, around) for around in writable):
                yield folder
            folder = os.path.dirname(folder)


def _names_git(pattern: str) -> bool:
    return pattern.removeprefix("./").split("/")[0] == ".git"


def beneath(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both are real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _both(one: list[_Let], other: list[_Let]) -> list[_Let]:
    """What both let in: of two that lie in each other the inner one."""
    found = [each for each in one if any(beneath(each.path, around.path) for around in other)]
    found += [each for each in other if any(beneath(each.path, around.path) for around in one)]
    return list(dict.fromkeys(found))


def _outside(levels: Sequence[Level], root: str, *ways: str) -> Iterator[_Let]:
    """What the operator lets in from outside the working directory."""
    for level in levels:
        files = level.data.get("files") if level.is_operators and isinstance(level.data, dict) else None
        if isinstance(files, dict):
            named = _found((each for way in ways for each in texts(files.get(way)) if os.path.isabs(each)), root)
            yield from (each for each in named if not beneath(each.path, root))


def _found(patterns: Iterable[str], root: str) -> Iterator[_Let]:
    """What patterns stand for now, whatever links lead there."""
    for pattern in patterns:
        plain = pattern.removesuffix("/**").rstrip("/") or "."
        if pattern == "**":
            yield _Let(root)
        elif not _WILD & set(plain):
            yield _named(os.path.join(root, plain), pattern != plain)
        else:
            yield from (_Let(os.path.realpath(path)) for path in _fitting(pattern, root))


def _named(path: str, folder: bool) -> _Let:
    real = os.path.realpath(path)
    return _Let(real) if os.path.exists(real) else _Let(real, folder)


def _denied(patterns: Iterable[str], root: str) -> Iterator[str]:
    """What may not be seen: by its own path, since a link to it leads to what is hidden."""
    for pattern in patterns:
        plain = pattern.removesuffix("/**").rstrip("/") or "."
        if _WILD & set(plain):
            yield from (os.path.realpath(path) for path in _fitting(pattern, root))
        elif os.path.lexists(path := os.path.join(root, plain)):
            yield os.path.realpath(path)


def _fitting(pattern: str, root: str) -> Iterator[str]:
    """What fits a pattern now, a folder standing for all that it holds. Raises Refused for too many files."""
    if os.path.isabs(pattern):
        if not beneath(pattern, root):
            raise Refused(f"`{pattern}` has wildcards outside the working directory", "name a folder", "policy.files")
        pattern = os.path.relpath(pattern, root)
    seen = 0
    todo = [""]
    while todo:
        at = todo.pop()
        try:
            listed = list(os.scandir(os.path.join(root, at)))
        except OSError:
            continue
        seen += len(listed)
        if seen > MOST:
            raise Refused(f"more than {MOST:,} files would be held against `{pattern}`", "name folders", "policy.files")
        for entry in listed:
            path = f"{at}/{entry.name}" if at else entry.name
            if path_matches(pattern, path):
                yield os.path.join(root, path)
            elif entry.is_dir(follow_symlinks=False):
                todo.append(path)


def repositories(root: str) -> Iterator[str]:
    """What git keeps of the project and of repositories in it: hooks and settings there make git run programs."""
    return (path for path in ruling(root) if path.endswith("/.git"))


def ruling(root: str) -> Iterator[str]:
    """What rules over what is run in the project and in the folders in it: what git keeps, and settings."""
    todo = [(root, _REPOSITORIES)]
    while todo:
        folder, deeper = todo.pop()
        own = f"{folder}/.git"
        yield from (path for path in (own, f"{folder}/{_OPERATOR}") if os.path.lexists(path))
        if deeper:
            try:
                inner = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            todo += [(path, deeper - 1) for path in inner if path != own]
