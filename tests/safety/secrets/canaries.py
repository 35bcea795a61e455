"""Secrets that stand for all others in every test, and the look for them in whatever runs kept, printed and started.

Each holds the same sixteen letters and digits, which no quoting changes. So six texts find it in eleven encodings: the
letters themselves in whatever escapes signs around them, hexadecimal in both cases, and base64 wherever it begins.
"""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORE = "Kd81xQ9f3ZrW7uTe"
VARIABLE = "TOKEN_OF_THE_OPERATOR"
"""In the environment of every test, and so of every run in it. Nobody declares it: no run has a reason to look at it."""
STATES = (".planrunner", "state")
_LARGEST = 1 << 28


def canary(name: str) -> str:
    """A secret with signs that addresses write otherwise; none that texts within texts escape twice, which nobody looks
    for."""
    return f"{CORE}/+{name}="


def _inner(before: int, start: int) -> bytes:
    whole = base64.b64encode(b"\0" * before + CORE.encode())
    return whole[start : (before + len(CORE)) * 8 // 6]


NEEDLES = (
    CORE.encode(),
    CORE.encode().hex().encode(),
    CORE.encode().hex().upper().encode(),
    *(_inner(before, start) for before, start in ((0, 0), (1, 2), (2, 3))),
)


def is_told(data: bytes) -> bool:
    """Whether a canary stands in the data."""
    return any(needle in data for needle in NEEDLES)


def told_in(folder: Path) -> list[str]:
    """The files of state directories below a folder that a canary stands in."""
    return [path for state in _states(str(folder)) for path in _files(state) if is_told(_read(path))]


def _states(folder: str) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        if os.path.basename(path) in STATES or "journal.db" in names:
            yield path
            folders.clear()


def _files(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        yield from (os.path.join(path, name) for name in names)


def _read(path: str) -> bytes:
    """A regular file, its name before its content; nothing where it is gone meanwhile, or nobody may read it."""
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return os.fsencode(path)
        with open(path, "rb") as file:
            return os.fsencode(path) + b"\n" + file.read()
    except OSError:
        return b""


class Ear:
    """Hears what programs print that tests wait for, and which arguments programs are given that this process starts."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def listen(self) -> None:
        """From now on, for good."""
        sys.addaudithook(self._audit)
        communicate = subprocess.Popen.communicate

        def overheard(process: subprocess.Popen[Any], *given: Any, **named: Any) -> tuple[Any, Any]:
            both = communicate(process, *given, **named)
            if "planrunner" in str(process.args):
                self.hear("printed by", process.args, both)
            return both

        subprocess.Popen.communicate = overheard  # type: ignore[method-assign]

    def take(self) -> list[str]:
        """What was heard since the last time."""
        found, self.heard = self.heard, []
        return found

    def _audit(self, event: str, given: tuple[Any, ...]) -> None:
        if event in ("os.posix_spawn", "subprocess.Popen", "os.exec"):
            self.hear("an argument of", given[0], given[1:2])

    def hear(self, how: str, who: object, what: Any) -> None:
        """Notes who told a canary, where one stands in ``what``."""
        for each in what:
            if each and is_told(each if isinstance(each, bytes) else str(each).encode("utf-8", "surrogateescape")):
                self.heard.append(f"{how} {who}")


EAR = Ear()
"""The one of the whole test run."""
