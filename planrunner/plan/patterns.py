"""Patterns of a policy (paths, names, words, values), and paths as a plan names them.

A path is placed by its words alone, whatever links there are: the same functions place a path that is read off a plan
and one that is about to be opened.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from planrunner.globs import through

UNKNOWN = "{{}}"
"""Stands in a word of a command for what is known only when it runs."""


class Loose(str):
    """A word of which the shell makes others that are not known: none or several of ``$files``, files of ``*.py``."""

    __slots__ = ()


def name_matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern in which ``*`` is any text and ``?`` any character; nothing else is special."""
    return _compiled(pattern).match(name) is not None


def path_matches(pattern: str, path: str) -> bool:
    """Whether a path fits: ``*`` stays within a name, ``**`` goes through any number of folders, and what names a
    folder names all that lies in it. Both are from the same folder, or both absolute, without ``.`` and ``..``."""
    wanted = [part for part in pattern.rstrip("/").split("/") if part != "."]
    if not wanted:
        return not path.startswith("/")
    reached = through({0}, wanted)
    for name in path.split("/"):
        if len(wanted) in reached:
            return True
        steps = {at if wanted[at] == "**" else at + 1 for at in reached if _steps(wanted[at], name)}
        reached = through(steps, wanted)
    return len(wanted) in reached


def _steps(wanted: str, name: str) -> bool:
    return wanted == "**" or name_matches(wanted, name)


def value_matches(pattern: Any, value: Any, every: bool) -> bool:
    """Whether an input fits: text by ``name_matches``, a list by its members (``every`` of them, or any), anything else
    by being equal."""
    if isinstance(value, (list, tuple)):
        found = (value_matches(pattern, item, every) for item in value)
        return all(found) if every else any(found)
    if isinstance(value, dict):
        found = (value_matches(pattern, item, every) for item in value.values())
        return all(found) if every else any(found)
    if isinstance(pattern, str):
        return name_matches(pattern, written(value))
    return bool(pattern == value) and isinstance(pattern, bool) == isinstance(value, bool)


def words_match(pattern: str, words: Sequence[str]) -> bool:
    """Whether the words of one command fit those of a pattern; a lone ``*`` at its end stands for any more words."""
    wanted = pattern.split()
    rest = wanted[-1:] == ["*"]
    fixed = wanted[:-1] if rest else wanted
    if len(words) < len(fixed) or (not rest and len(words) != len(fixed)):
        return False
    return all(name_matches(want, word) for want, word in zip(fixed, words))


def words_may_match(pattern: str, words: Sequence[str]) -> bool:
    """Whether words could come to fit those of a pattern: ``*`` is one that is not known, a ``Loose`` one is any
    number of them."""
    wanted = pattern.split()
    rest = wanted[-1:] == ["*"]
    fixed = wanted[:-1] if rest else wanted
    for at, word in enumerate(words):
        if isinstance(word, Loose):
            return at >= len(fixed) or may_become(word, fixed[at])
        if at >= len(fixed):
            return rest
        if word != "*" and not name_matches(fixed[at], word):
            return False
    return len(words) >= len(fixed)


def may_become(word: str, pattern: str) -> bool:
    """Whether the first word that a shell makes of a ``Loose`` one could fit a pattern, by how both begin and end."""
    begins, wanted = re.split(r"[*?\[{~]", word)[0], re.split(r"[*?]", pattern)[0]
    if not (begins.startswith(wanted) or wanted.startswith(begins)):
        return False
    if "~" in word or UNKNOWN in word:
        return True  # what it ends with may belong to another word
    ends, wanted = re.split(r"[*?\]}]", word)[-1], re.split(r"[*?]", pattern)[-1]
    return ends.endswith(wanted) or wanted.endswith(ends)


def written(value: Any) -> str:
    """A value as a pattern sees it: as YAML would have it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
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
