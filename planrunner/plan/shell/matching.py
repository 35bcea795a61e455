"""Which commands an entry of a policy is about: patterns of words against what a shell would run."""

from __future__ import annotations

from collections.abc import Sequence

from planrunner.plan.patterns import Loose, words_match, words_may_match
from planrunner.plan.shell.programs import CARRIERS, SHELLS, astray, bare, comparable, launches, starts_others
from planrunner.plan.templates import holds_template

__all__ = ["astray", "words_fit"]

_RENAMING = frozenset(". alias enable eval hash source ssh trap".split())
"""What else runs what its arguments say, or gives it another name."""


def words_fit(patterns: Sequence[str], words: tuple[str, ...], every: bool) -> bool | None:
    """Whether a command of these words fits a pattern (None: a word that is not known may decide it); with ``every``
    all that it runs has to."""
    if words:
        if not every and launches(words):
            return True
        patterns, words = comparable(patterns, words, every)
        if not every and (plain := bare(words)) != words:
            answers = (words_fit(patterns, plain, every), _as_written(patterns, words, every))
            return True if True in answers else None if None in answers else False
    return _as_written(patterns, words, every)


def _as_written(patterns: Sequence[str], words: tuple[str, ...], every: bool) -> bool | None:
    if not every and (carries := _carries(words)) is not False:
        return carries
    known = not any(map(holds_template, words))
    if known and any(words_match(pattern, words) for pattern in patterns):
        return True
    if known and (every or not any(isinstance(word, Loose) for word in words)):
        return False  # what allows a pattern of files allows what it is written as
    words = tuple(word if isinstance(word, Loose) or not holds_template(word) else "*" for word in words)
    return None if any(words_may_match(pattern, words) for pattern in patterns) else False


def _carries(words: tuple[str, ...]) -> bool | None:
    """Whether a command runs another that its arguments name (None: a word that is not known may say so): it is judged
    like a script that cannot be read."""
    if words[:1] == ("find",):
        return starts_others(words[1:])
    return bool(words) and (words[0] in CARRIERS or words[0] in SHELLS or words[0] in _RENAMING)
