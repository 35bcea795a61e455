"""What an attempt notes beside the journal before it acts: issued again after a crash, it goes on from there."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planrunner.capabilities.contract import Context

_OLD = 90 * 86400.0


class Record:
    """A note under a name, durable once ``write`` has returned. It holds nothing but JSON data."""

    __slots__ = ("_path",)

    def __init__(self, context: Context, slot: str) -> None:
        self._path = os.path.join(context.cache("git"), f"{slot}.json")

    def read(self) -> dict[str, Any]:
        """What was noted; empty where nothing was, or where the note is not whole."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, data: dict[str, Any]) -> None:
        """Note it in place of what was there."""
        staged = self._path + ".new"
        with open(staged, "wb") as file:
            file.write(json.dumps(data).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, self._path)
        sync_folder(os.path.dirname(self._path))

    @contextlib.contextmanager
    def holding(self, data: dict[str, Any], unsure: tuple[str, ...] = ()) -> Iterator[None]:
        """Note it for an act that happens as a whole or not at all. Where that fails the note is what it was, but for
        the classes of failure that leave open whether it happened."""
        earlier = self.read()
        self.write(data)
        try:
            yield
        except Failure as failure:
            if failure.failure not in ("cancelled", "timeout", *unsure):
                self.write(earlier) if earlier else self.drop()
            raise

    def drop(self) -> None:
        """Forget it, and what nobody has come back for in three months."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        _forget_old(os.path.dirname(self._path))


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _forget_old(folder: str) -> None:
    limit = time.time() - _OLD
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and entry.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(entry.path)
