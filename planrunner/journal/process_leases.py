"""Leases of a whole state directory: for each name one process at a time, until it gives it back or dies."""

from __future__ import annotations

import os

from planrunner.errors import StorageFailed
from planrunner.journal.leases import holder_at, is_locked, lock_path, sign, signature, try_lock


class ProcessLease:
    """The right of one process to do something for a state directory. Its ``name`` has a dot: no run has one. The
    kernel frees it when that process dies."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, state: str, name: str) -> None:
        self._path = lock_path(state, name)
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def take(self) -> bool:
        """Take it, if no other process has it; whether it is there. Raises StorageFailed where it cannot be locked."""
        if self._descriptor is None:
            try:
                self._descriptor = try_lock(self._path)
            except OSError as error:
                raise StorageFailed(f"`{self._path}` cannot be locked: {error.strerror}") from error
            if self._descriptor is not None:
                sign(self._descriptor)
        return self.is_held

    def tell(self, word: str) -> None:
        """Say what it is held for, for ``word_of``."""
        if self._descriptor is not None:
            sign(self._descriptor, word.encode("utf-8", "replace"))

    def release(self) -> None:
        """Give it back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def process_with(state: str, name: str) -> str:
    """The process that has a ``ProcessLease``, as people read it; empty where none has it."""
    return holder_at(lock_path(state, name)) if is_locked(state, name) else ""


def word_of(state: str, name: str) -> str:
    """What the holder of a ``ProcessLease`` holds it for, as it told; empty where it told nothing."""
    return signature(lock_path(state, name)).partition(b"\n")[2].decode("utf-8", "replace").strip()
