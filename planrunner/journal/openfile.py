"""The file of the journal while a run writes to it: a task may remove it under the run."""

from __future__ import annotations

import os

from planrunner.errors import StorageFailed
from planrunner.journal.database import FILE
from planrunner.journal.strangers import lost


class OpenFile:
    """The database of a state directory as it was when it was opened: a task may remove it under a run."""

    __slots__ = ("_gone", "_identity", "_state")

    def __init__(self, state: str) -> None:
        self._state = state
        self._identity = self._found()
        self._gone: StorageFailed | None = None

    def require_there(self, run: str) -> None:
        """Raises StorageFailed where the file was removed or replaced while the run acted."""
        if self._found() == self._identity:
            return
        if self._gone is None:
            self._gone = lost(self._state, run)
        raise self._gone

    def _found(self) -> tuple[int, int] | None:
        """What the file is known by, whatever its name; None where there is none."""
        try:
            found = os.stat(os.path.join(self._state, FILE))
        except OSError:
            return None
        return found.st_dev, found.st_ino
