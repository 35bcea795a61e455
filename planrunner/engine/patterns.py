"""Patterns of files below a directory, found without following a link: what backups save and freshness looks at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

_MAGIC = frozenset("*?[")


class Refused(Exception):
    """Files cannot be taken: the message says which and why."""


def inside(root: str, directory: str, pattern: str) -> str:
    """A pattern of ``directory`` as one of ``root``; raises Refused for one that leads out of it."""
    if not pattern or "\0" in pattern:
        raise Refused(f"{pattern!r} is no path")
    relative = os.path.relpath(os.path.join(directory, pattern), root)
    if relative == ".":
        raise Refused(f"{pattern} is the whole directory of the run: name what the task changes")
    if relative.split("/")[0] == "..":
        raise Refused(f"{pattern} is outside the directory of the run")
    return relative


def is_pattern(text: str) -> bool:
    """Whether a text stands for whatever fits it, and not for one path alone."""
    return not _MAGIC.isdisjoint(text)


def matching(root: str, pattern: str, *, through: bool = False) -> Iterator[str]:
    """What there is below ``root`` that fits: files, links and folders. A folder stands for all that it holds. With
    ``through`` a link to a folder may stand in the middle of a path."""
    for path in _fitting(root, "", pattern.split("/"), os.path.isdir if through else _is_folder):
        yield path
        if _is_folder(os.path.join(root, path)):
            yield from below(root, path)


def fits(path: str, pattern: str) -> bool:
    """Whether ``matching`` would give ``path`` for ``pattern``, if it were there."""
    return _fits(path.split("/"), pattern.split("/"))


def _fits(path: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts:
        return True  # a folder that fits stands for all that it holds
    if not path:
        return False
    if parts[0] == "**":
        return len(parts) == 1 or _fits(path, parts[1:]) or _fits(path[1:], parts)
    return fnmatchcase(path[0], parts[0]) and _fits(path[1:], parts[1:])


def _fitting(root: str, at: str, parts: Sequence[str], enters: Callable[[str], bool]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    folder = os.path.join(root, at) if at else root
    if part == "**":
        yield from _fitting(root, at, rest, enters) if rest else (_join(at, name) for name in _names(folder))
        for name in _names(folder):
            if _is_folder(os.path.join(folder, name)):
                yield from _fitting(root, _join(at, name), parts, enters)
        return
    magic = is_pattern(part)
    for name in [name for name in _names(folder) if fnmatchcase(name, part)] if magic else [part]:
        path = os.path.join(folder, name)
        if not rest:
            if os.path.lexists(path):
                yield _join(at, name)
        elif enters(path):
            yield from _fitting(root, _join(at, name), rest, enters)
        elif not magic and os.path.islink(path):
            raise Refused(f"{_join(at, '/'.join(parts))} leads through `{name}`, which is a link")


def below(root: str, at: str) -> Iterator[str]:
    """Everything in a folder, by its path from ``root``; links are not followed."""
    for name in _names(os.path.join(root, at)):
        path = _join(at, name)
        yield path
        if _is_folder(os.path.join(root, path)):
            yield from below(root, path)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Refused(f"{folder} cannot be read: {error.strerror}") from None


def _join(at: str, name: str) -> str:
    return f"{at}/{name}" if at else name


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
