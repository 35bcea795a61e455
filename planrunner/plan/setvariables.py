"""Variables that a task sets: which of them make a command another one, and which a script sets by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from planrunner.plan.shellcommand import CARRIERS, DECLARING, SHELLS
from planrunner.plan.taint.known import STEERING
from planrunner.plan.taint.scripts import read_script

_FAMILIES = re.compile(
    r"CDPATH|IFS|GCONV_PATH|BASH\w*|LD_\w*|DYLD_\w*|GIT_\w*|PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w*|SHELL\w*"
)
"""Variables that nobody tells apart here: of these families some steer, others do not."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
_HANDING_ON = CARRIERS | DECLARING | frozenset(("declare", "typeset"))


def steers(name: str) -> bool:
    """Whether a variable makes commands run something else than they say."""
    return (STEERING.fullmatch(name) or _FAMILIES.fullmatch(name)) is not None


def steered(names: Iterable[str]) -> str:
    """The first of some variables that makes commands others; empty where none does."""
    return next(filter(steers, names), "")


def set_in(run: str | Sequence[str] | None, shell: str = "") -> Iterator[str]:
    """The variables that a script, or a program with its arguments, sets where that can be read: before a command
    (``NAME=x make``), by ``export`` and the like, and by what hands them on to another program (``env NAME=x make``).
    Scripts for what is no shell set none."""
    if isinstance(run, str):
        if any(os.path.basename(word) in SHELLS for word in (shell or "sh").split()):
            for words in read_script(run):
                yield from _set_by([word.text for word in words])
    elif run:
        yield from _set_by(list(run))


def _set_by(words: list[str]) -> Iterator[str]:
    at = 0
    while at < len(words) and (found := _ASSIGNMENT.match(words[at])):
        yield found[1]
        at += 1
    if at < len(words) and os.path.basename(words[at]) in _HANDING_ON:
        yield from (found[1] for word in words[at + 1 :] if (found := _ASSIGNMENT.match(word)))
