"""Patterns of paths: ``*``, ``?`` and ``[…]`` stand for letters of one name, ``**`` for any number of folders."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache

_MAGIC = frozenset("*?[")


def is_glob(text: str) -> bool:
    """Whether a text stands for whatever fits it, and not for one path alone."""
    return not _MAGIC.isdisjoint(text)


def name_fits(pattern: str, name: str) -> bool:
    """Whether one name fits a pattern without ``/``."""
    return _compiled(pattern).match(name) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


class Globs:
    """Several patterns at once, followed name by name, so that only folders are entered that may hold something.
    Without ``hidden`` a name with a dot in front fits only a pattern that begins with one."""

    __slots__ = ("_hidden", "_parts")

    def __init__(self, patterns: Iterable[str], hidden: bool = True) -> None:
        self._parts = [_parts(pattern) for pattern in patterns]
        self._hidden = hidden

    def fits(self, path: str) -> bool:
        """Whether the whole path fits one of them."""
        return any(len(parts) in reached for parts, reached in self._followed(path))

    def covers(self, path: str) -> bool:
        """Whether the path fits one of them, or lies in a folder that does."""
        names = path.split("/")
        return any(self.fits("/".join(names[:count])) for count in range(1, len(names) + 1))

    def enters(self, path: str) -> bool:
        """Whether something below the path may fit."""
        return any(min(reached, default=len(parts)) < len(parts) for parts, reached in self._followed(path))

    def _followed(self, path: str) -> Iterator[tuple[Sequence[str], set[int]]]:
        """Each pattern, and how far into it the names of the path lead, in all ways there are."""
        for parts in self._parts:
            at = skip_globstars({0}, parts)
            for name in path.split("/"):
                places = [place for place in at if place < len(parts) and self._name_fits(parts[place], name)]
                at = skip_globstars({place if parts[place] == "**" else place + 1 for place in places}, parts)
            yield parts, at

    def _name_fits(self, part: str, name: str) -> bool:
        if name.startswith(".") and not (self._hidden or part.startswith(".")):
            return False
        return part == "**" or name_fits(part, name)


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    return (*parts, "*") if parts[-1:] == ("**",) else parts  # what lies below a folder is not the folder itself


def skip_globstars(reached: Iterable[int], wanted: Sequence[str]) -> set[int]:
    """The places in a pattern together with those behind each ``**``, which stands for no folder as well."""
    result = set(reached)
    for at in sorted(reached):
        while at < len(wanted) and wanted[at] == "**":
            at += 1
            result.add(at)
    return result


def shell_fits(pattern: str, path: str) -> bool:
    """Whether a path fits the pattern of a shell, for which ``**`` is ``*``."""
    parts, names = pattern.split("/"), path.split("/")
    return len(parts) == len(names) and all(map(name_fits, parts, names))


def files(directory: str, pattern: str) -> list[str]:
    """The files below a directory that a pattern means, in order: itself where it is a plain path, where that very name
    exists, and where it leads out. ``*`` and ``**`` mean no hidden names; links to folders are followed."""
    path = os.path.normpath(pattern)
    leads_out = path.startswith("/") or path.split("/")[0] == ".."
    if leads_out or not is_glob(pattern) or os.path.lexists(os.path.join(directory, pattern)):
        return [pattern]
    return sorted(_below(directory, "", Globs([path], hidden=False), ()))


def _below(folder: str, at: str, globs: Globs, around: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """``around`` are the folders that this one lies in, so that a link that leads back is left."""
    try:
        info, entries = os.stat(folder), list(os.scandir(folder))
    except OSError:
        return
    place = (info.st_dev, info.st_ino)
    for entry in entries if place not in around else ():
        path = at + entry.name
        if entry.is_file():
            if globs.fits(path):
                yield path
        elif entry.is_dir() and globs.enters(path):
            yield from _below(entry.path, f"{path}/", globs, (*around, place))


def name_matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern in which ``*`` is any text and ``?`` any character; nothing else is special."""
    return _compiled_words(pattern).match(name) is not None


def path_matches(pattern: str, path: str) -> bool:
    """Whether a path fits: ``*`` stays within a name, ``**`` goes through any number of folders, and what names a
    folder names all that lies in it. Both are from the same folder, or both absolute, without ``.`` and ``..``."""
    wanted = [part for part in pattern.rstrip("/").split("/") if part != "."]
    if not wanted:
        return not path.startswith("/")
    reached = skip_globstars({0}, wanted)
    for name in path.split("/"):
        if len(wanted) in reached:
            return True
        steps = {at if wanted[at] == "**" else at + 1 for at in reached if _steps(wanted[at], name)}
        reached = skip_globstars(steps, wanted)
    return len(wanted) in reached


def _steps(wanted: str, name: str) -> bool:
    return wanted == "**" or name_matches(wanted, name)


@lru_cache(maxsize=1024)
def _compiled_words(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that looks for each part once, from where the one before ended: no text takes
    long to judge."""
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in re.split(r"\*+", pattern))
    if not rest:
        return re.compile(first + r"\Z", re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1] if part)
    return re.compile(f"{first}{middle}.*{rest[-1]}\\Z", re.DOTALL)


def steps(directory: str, path: str) -> list[str] | None:
    """The names from a directory, an absolute path, down to a path that stands in a call made there; none for the
    directory itself. None for a path that leaves it."""
    relative = posixpath.relpath(path, directory) if path.startswith("/") else path
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    return None if ".." in parts else parts


def without_parents(directory: str, path: str) -> str:
    """A path that goes up and comes back, written without ``..``; empty for one that leaves the directory. Links may
    make the two differ, so only a person puts one for the other."""
    plain = posixpath.relpath(posixpath.join(directory, path), directory)
    return "" if plain.split("/", 1)[0] == ".." else plain


def placed(root: str, directory: str, parts: Sequence[str]) -> str:
    """Where steps from a directory lead: from ``root`` on, or absolute where that lies outside; both are absolute. This
    is what the patterns of a policy are held against."""
    whole = posixpath.normpath(posixpath.join(directory, *parts))
    relative = posixpath.relpath(whole, root)
    return whole if relative.split("/", 1)[0] == ".." else relative
