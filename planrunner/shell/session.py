"""A session of the shell that persists: the lines that were typed, the run at hand and the breakpoints."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from planrunner.errors import StorageFailed, UsageError
from planrunner.journal.workspace import prepare_state, private
from planrunner.records import Struct

Json = Any

FOLDER = "shell"
SUFFIX = ".jsonl"
MAIN = "main"
"""The session that is opened where none is named."""
KEPT = 2_000
"""Lines that a session shows again; older ones stay in its file."""
LARGEST = 8 << 20
"""Bytes of a file that are read: the end of a longer one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Line(Struct):
    """A line that was carried out: when (seconds since 1970), its text and the exit code."""

    at: float
    text: str
    code: int


class Session:
    """A session and its file, to which each change is appended."""

    __slots__ = ("_path", "breakpoints", "lines", "name", "run")

    def __init__(self, state: str, name: str = MAIN) -> None:
        """The session of that name, as it was left. Raises UsageError for a name that is not a plain word."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"`{name}` cannot be the name of a session", "use letters, digits, `-`, `_` and `.`")
        self.name = name
        self._path = os.path.join(state, FOLDER, name + SUFFIX)
        self.lines: list[Line] = []
        self.run = ""
        self.breakpoints: tuple[str, ...] = ()
        for record in _records(self._path):
            self._take(record)

    def add(self, text: str, code: int) -> None:
        """Keep a line that was carried out. Raises StorageFailed."""
        self._write({"at": time.time(), "line": text, "code": code})

    def choose(self, run: str) -> None:
        """Keep which run is at hand. Raises StorageFailed."""
        if run != self.run:
            self._write({"run": run})

    def keep_breakpoints(self, texts: tuple[str, ...]) -> None:
        """Keep the breakpoints, as they are typed. Raises StorageFailed."""
        if texts != self.breakpoints:
            self._write({"breakpoints": list(texts)})

    def _take(self, record: dict[str, Json]) -> None:
        if "line" in record:
            line = Line(float(record.get("at", 0)), str(record["line"]), int(record.get("code", 0)))
            self.lines.append(line)
            del self.lines[:-KEPT]
        self.run = str(record.get("run", self.run))
        self.breakpoints = tuple(map(str, record.get("breakpoints", self.breakpoints)))

    def _write(self, record: dict[str, Json]) -> None:
        self._take(record)
        folder = os.path.dirname(self._path)
        try:
            prepare_state(os.path.dirname(folder))
            os.makedirs(folder, 0o700, exist_ok=True)
            number = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with open(number, "ab") as file:
                file.write(json.dumps(record).encode() + b"\n")
        except OSError as error:
            raise StorageFailed(f"the session cannot be kept in `{self._path}`: {error.strerror}") from error


def sessions(state: str) -> list[str]:
    """The names of the sessions of a state directory, the one used last first."""
    folder = os.path.join(state, FOLDER)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
        names.sort(key=lambda name: -os.stat(os.path.join(folder, name)).st_mtime)
    except OSError:
        return []
    return [name.removesuffix(SUFFIX) for name in names]


def _records(path: str) -> Iterator[dict[str, Json]]:
    """The records of a file; a line that a crash cut off is passed over."""
    try:
        with open(path, "rb", opener=private) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LARGEST))
            data = file.read()
    except OSError:
        return
    for text in data.splitlines():
        try:
            record = json.loads(text)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
