"""The arguments of ``find``: whether it starts other programs, also where a word is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planrunner.plan.matching import UNKNOWN, Loose, may_become

_STARTING = ("-exec", "-ok")
"""What the actions that start a program begin with."""
_ACTIONS = ("-exec", "-execdir", "-ok", "-okdir")
_TAKING = frozenset(
    "-amin -anewer -atime -cmin -cnewer -ctime -D -fls -fprint -fprint0 -fstype -gid -group -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex "
    "-regextype -samefile -size -type -uid -used -user -wholename -xtype".split()
)
"""What takes the next word, whatever that says."""


def starts_others(words: Sequence[str]) -> bool | None:
    """Whether one of the arguments starts a program; None where a word that is not known may be such an action."""
    if any(word.startswith(_STARTING) for word in words):
        return True
    taken, sure = False, True
    for word in words:
        if isinstance(word, Loose):
            if UNKNOWN in word or any(may_become(word, each) for each in _ACTIONS):
                return None
            taken, sure = False, sure and not any(may_become(word, each) for each in _TAKING)
        elif taken:
            taken = False
        elif _is_open(word) and _may_start(re.split(r"\{[{%]", word)[0]):
            return None
        else:
            taken = sure and word in _TAKING
    return False


def _is_open(word: str) -> bool:
    return "{{" in word or "{%" in word


def _may_start(begins: str) -> bool:
    return any(each.startswith(begins) for each in _ACTIONS)
