"""Changed files: the operating system says that something below a folder has moved; what counts is how files stand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import islice

from planrunner.errors import missing_extra
from planrunner.files.match import files, is_glob, path_matches

try:
    from watchfiles import Change, watch
except ImportError as error:
    raise missing_extra("triggers need", "serve", error) from None

MOST = 100_000
"""Files that are looked at for one trigger."""


def mark_of(root: str, patterns: Iterable[str]) -> str:
    """A digest of the files that patterns mean: their names, sizes and times of change."""
    digest = sha256()
    for pattern in patterns:
        for path in islice(files(root, pattern), MOST):
            try:
                found = os.stat(os.path.join(root, path))
            except OSError:
                continue
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def folders_of(root: str, patterns: Iterable[str]) -> set[str]:
    """The folders below which something can match: those before the first wildcard, as far as they are there."""
    found = set()
    for pattern in patterns:
        parts = os.path.normpath(pattern).split("/")
        fixed = parts[: next((at for at, part in enumerate(parts) if is_glob(part)), len(parts) - 1)]
        path = os.path.join(root, *fixed)
        while not os.path.isdir(path) and path != root:
            path = os.path.dirname(path)
        found.add(path)
    return found


class Watcher:
    """Calls ``changed`` in a thread of its own whenever a file moves that the patterns mean, until it is closed."""

    def __init__(self, root: str, patterns: Iterable[str], changed: Callable[[], None]) -> None:
        self._root = root
        self._patterns = tuple(map(os.path.normpath, patterns))
        self._changed = changed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="planrunner-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        try:
            folders = folders_of(self._root, self._patterns)
            for _ in watch(
                *folders, watch_filter=self._is_meant, stop_event=self._closed, debounce=200, rust_timeout=500
            ):
                self._changed()
        except (OSError, RuntimeError):  # a folder has gone, or the system watches no more: looks go on by the clock
            return

    def _is_meant(self, _: Change, path: str) -> bool:
        near = os.path.relpath(path, self._root)
        return any(path_matches(pattern, near) for pattern in self._patterns)
