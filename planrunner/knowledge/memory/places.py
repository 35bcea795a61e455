"""Where the layers lie, and that what lies there is the user's own."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from planrunner.errors import StorageFailed, UsageError
from planrunner.failures import Failure
from planrunner.knowledge.memory.entries import LayerName

ACTS_KEPT = 30 * 86400.0
"""Seconds for which an act is known: so long it is done once only, and can be taken back."""
_PATIENCE = 30.0
_MOMENT = 0.01
SUFFIXES = {"sqlite": ".db", "file": ".jsonl"}


class Place(NamedTuple):
    """``state`` is the state directory of the project, ``home`` the folder of the user's data (empty: there is none),
    ``run`` the run whose task layer is meant."""

    state: str
    home: str = ""
    run: str = ""

    def path(self, layer: LayerName, backend: str) -> str:
        """The file of a layer. Raises UsageError where there is no place for it."""
        root = self.home if layer == "global" else self.state
        if not root:
            lacks = "a home of its user, or XDG_DATA_HOME" if layer == "global" else "a state directory"
            raise UsageError(f"the {layer} memory has no place: it needs {lacks}")
        return os.path.join(root, "memory", layer + SUFFIXES[backend])


Stopped = Callable[[], bool]
"""Whether a wait is to be given up."""


def never() -> bool:
    """The answer where nothing stops a wait."""
    return False


class Turn:
    """The wait for a turn to write, while other processes have theirs: not for ever, and given up when stopped."""

    __slots__ = ("_end", "_stopped")

    def __init__(self, stopped: Stopped) -> None:
        self._end = time.monotonic() + _PATIENCE
        self._stopped = stopped

    def wait(self) -> None:
        """Let a moment pass. Raises Failure when stopped, OSError after half a minute."""
        if self._stopped():
            raise Failure("stopped while another process writes to the memory", "interrupted")
        if time.monotonic() > self._end:
            raise OSError(errno.EBUSY, f"another process has been writing for {_PATIENCE:.0f} s")
        time.sleep(_MOMENT)


def claim_file(path: str) -> None:
    """Make the folder of a file (mode 0700) and the file (0600) where they are missing; nothing is written through a
    link, and nothing read that belongs to another user. Raises OSError, StorageFailed."""
    folder = os.path.dirname(path)
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    if not os.path.lexists(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
    for each, of_kind in ((folder, stat.S_ISDIR), (path, stat.S_ISREG)):
        about = os.lstat(each)
        if not of_kind(about.st_mode) or about.st_uid != os.geteuid():
            raise StorageFailed(f"`{each}` is a link, of another kind, or belongs to another user", "move it away")
