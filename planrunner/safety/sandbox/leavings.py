"""Files that a confined process leaves in the home and the temporary folder of its sandbox, which are gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
from collections.abc import Iterator

from planrunner.safety.sandbox.confinement import Confinement, beneath
from planrunner.safety.sandbox.wrapper import HIGH, HOME, TEMPORARY, temporary

MOST = 1000
"""Files that are counted, and entries of folders that are looked at for each."""
_DEPTH = 12
_KEPT_BY_PROGRAMS = re.compile(
    r"\.|(?:tmp|temp|pytest-of-|hsperfdata_|node-compile-cache|v8-compile-cache|npm-|yarn--|pip-|uv-|pymp-|go-build"
    r"|jest_|puppeteer_|playwright|torch|matplotlib-|mypy|ruff|cc[A-Za-z0-9]{6}\.|ssh-|_MEI)"
)
"""How names begin of what programs keep for themselves: caches, settings and temporary files."""
_MODULES = "go"
"""Where Go keeps modules in a home."""
_ENGINE = "scratch"
"""How names of the engine begin in the folder of an attempt."""


class Leavings:
    """Shows the private folder of one process. ``theirs`` is the descriptor by which what runs inside hands the folder
    over before the program begins, 0 where there is none: a folder held open can be read when its sandbox is gone."""

    __slots__ = ("_confinement", "_ours", "theirs")

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._ours: socket.socket | None = None
        self.theirs = 0
        if confinement.kind == "bubblewrap":
            self._ours, theirs = socket.socketpair()
            with theirs:
                self.theirs = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, HIGH)

    def files(self) -> list[str]:
        """Regular files that the process left and that are of no program's own, by the names that it knew them by;
        once."""
        handle = self._folder()
        if handle < 0:
            return []
        try:
            return list(self._named(handle))
        finally:
            os.close(handle)

    def close(self) -> None:
        if self._ours is not None:
            self._ours.close()
            self._ours = None

    def _folder(self) -> int:
        if self._ours is not None:
            with contextlib.suppress(OSError):
                handles = socket.recv_fds(self._ours, 1, 1, socket.MSG_DONTWAIT)[1]
                return handles[0] if handles else -1
        elif self._confinement.kind == "landlock" and self._confinement.own:
            with contextlib.suppress(OSError):
                return os.open(self._confinement.own, _FOLDER)
        return -1

    def _named(self, handle: int) -> Iterator[str]:
        alone = self._confinement.kind == "landlock"
        top = HOME if alone else temporary(self._confinement)
        shared = top == HOME
        seen = 0
        for path in _files(handle, os.fstat(handle).st_dev, ()):
            inside = not shared and path[0] == os.path.basename(HOME) and len(path) > 1
            name = path[1] if inside else path[0]
            if (inside or shared) and name == _MODULES and path[-1] != name:
                continue
            if _KEPT_BY_PROGRAMS.match(name) or (alone and name.startswith(_ENGINE)):
                continue
            if not alone and self._is_let_in(f"{top}/{'/'.join(path)}"):
                continue
            around = "$HOME" if inside or shared else TEMPORARY
            yield "/".join((around, *path[1 if inside else 0 :]))
            seen += 1
            if seen >= MOST:
                return

    def _is_let_in(self, path: str) -> bool:
        """Whether it only marks the place of something from outside."""
        shut = self._confinement
        outside = (shut.root, *shut.readable, *shut.writable, *shut.guarded, *shut.denied)
        return any(beneath(path, each) for each in outside if each != "/")


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _files(handle: int, device: int, around: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of regular files below a folder, on the same file system, reached through no link."""
    try:
        with os.scandir(handle) as listed:
            entries = sorted((each for each, _ in zip(listed, range(MOST), strict=False)), key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        path = (*around, entry.name)
        with contextlib.suppress(OSError):
            if entry.is_file(follow_symlinks=False):
                yield path
            elif entry.is_dir(follow_symlinks=False) and len(path) < _DEPTH:
                inner = os.open(entry.name, _FOLDER, dir_fd=handle)
                try:
                    if os.fstat(inner).st_dev == device:
                        yield from _files(inner, device, path)
                finally:
                    os.close(inner)
