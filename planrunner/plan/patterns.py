"""Patterns of a policy for values and for the words of commands; those for names and paths are in ``files/match``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from planrunner.files.match import name_matches

UNKNOWN = "{{}}"
"""Stands in a word of a command for what is known only when it runs."""


class Loose(str):
    """A word of which the shell makes others that are not known: none or several of ``$files``, files of ``*.py``."""

    __slots__ = ()


def value_matches(pattern: Any, value: Any, every: bool) -> bool:
    """Whether an input fits: text by ``name_matches``, a list by its members (``every`` of them, or any), anything else
    by being equal."""
    if isinstance(value, (list, tuple)):
        answers = (value_matches(pattern, item, every) for item in value)
        return all(answers) if every else any(answers)
    if isinstance(value, dict):
        answers = (value_matches(pattern, item, every) for item in value.values())
        return all(answers) if every else any(answers)
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
