"""The output of a process in bounded memory: the end of it as text, the rest in a capped log file."""

from __future__ import annotations

import os

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TAIL = 65536
LOG_LIMIT = 64 << 20


class Tail:
    """The last ``limit`` bytes of a stream and how many went before them."""

    __slots__ = ("_data", "limit", "total")

    def __init__(self, limit: int = TAIL) -> None:
        self.limit = limit
        self.total = 0
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data
        if len(self._data) > 2 * self.limit:
            del self._data[: len(self._data) - self.limit]

    @property
    def dropped(self) -> int:
        return max(0, self.total - self.limit)

    def text(self) -> str:
        """The tail as text; bytes that are no UTF-8 become U+FFFD, half a character at the cut is left out."""
        if not self._data:
            return ""
        data = bytes(self._data[-self.limit :])
        if self.total > self.limit:
            start = 0
            while start < 3 and start < len(data) and data[start] & 0xC0 == 0x80:
                start += 1
            data = data[start:]
        return data.decode("utf-8", "replace")


class Record:
    """What an attempt prints: both tails, the log file and whoever watches. ``keep`` bounds the tail of stdout."""

    __slots__ = ("_log", "_path", "_watcher", "err", "keep", "out")

    def __init__(self, path: str, watcher: Callable[[str, bytes], None] | None = None) -> None:
        self.keep = TAIL
        self.out: Tail | None = None
        self.err: Tail | None = None
        self._path = path
        self._watcher = watcher
        self._log: LogFile | None = None

    def take(self, stream: str, data: bytes) -> None:
        if stream == "stderr":
            self.err = self.err or Tail()
            self.err.add(data)
        else:
            self.out = self.out or Tail(self.keep)
            self.out.add(data)
        if self._path:
            self._log = self._log or LogFile(self._path)
            self._log.write(data)
        if self._watcher is not None:
            self._watcher(stream, data)

    def texts(self) -> tuple[str, str]:
        """Both tails."""
        return (self.out.text() if self.out else "", self.err.text() if self.err else "")

    def close(self) -> str:
        """End the log file; gives what went wrong with it, or nothing."""
        if self._log is None:
            return ""
        self._log.close()
        return self._log.problem


class LogFile:
    """Both streams of an attempt in the order they were read; the file appears with the first byte.

    A log that cannot be written never stops a task: ``problem`` says what went wrong.
    """

    __slots__ = ("_handle", "_limit", "_path", "_written", "dropped", "problem")

    def __init__(self, path: str, limit: int = LOG_LIMIT) -> None:
        self._path = path
        self._limit = limit
        self._handle = -1
        self._written = 0
        self.dropped = 0
        self.problem = ""

    def write(self, data: bytes) -> None:
        room = self._limit - self._written
        if self.problem or room <= 0:
            self.dropped += len(data)
            return
        try:
            if self._handle < 0:
                self._handle = _open(self._path)
            self._written += os.write(self._handle, data if len(data) <= room else data[:room])
        except OSError as error:
            self.problem = f"the log {self._path} cannot be written: {error.strerror}"
        self.dropped += max(0, len(data) - room)

    def close(self) -> None:
        """End the file; one that reached its cap says how much is missing."""
        if self._handle < 0:
            return
        try:
            if self.dropped:
                note = b"\n[planrunner: the log ends here, %d more bytes were dropped]\n" % self.dropped
                os.write(self._handle, note)
            os.close(self._handle)
        except OSError as error:
            self.problem = f"the log {self._path} cannot be written: {error.strerror}"
        self._handle = -1


def _open(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)
