"""The output of a process in bounded memory: the end of it as text, and a log file with both ends of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from planrunner.redaction import Redactor, Stream


class Secrecy(Protocol):
    """What is kept from all that a run keeps or shows: None until there is something to look for."""

    redactor: Redactor | None


TAIL = 65536
LOG_LIMIT = 64 << 20
LOG_END = 1 << 20
"""Bytes of the end of a log that are kept where the whole does not fit; they wait in memory."""


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

    def data(self) -> bytes:
        """The last ``limit`` bytes."""
        return bytes(self._data[-self.limit :])

    def text(self) -> str:
        """The tail as text; bytes that are not UTF-8 become U+FFFD, half a character at the cut is left out."""
        if not self._data:
            return ""
        data = self.data()
        if self.total > self.limit:
            start = 0
            while start < 3 and start < len(data) and data[start] & 0xC0 == 0x80:
                start += 1
            data = data[start:]
        return data.decode("utf-8", "replace")


class Record:
    """What an attempt prints: both tails, the log file and the watch. ``keep`` bounds the tail of stdout. What is
    in ``secrecy`` comes into none of them. Of output beyond ``most`` bytes nothing is kept, and ``flooded`` is called;
    ``printed`` counts the bytes where there is such a bound."""

    __slots__ = (
        "_heard",
        "_listener",
        "_log",
        "_path",
        "_secrecy",
        "_streams",
        "_watcher",
        "err",
        "flooded",
        "keep",
        "most",
        "out",
        "printed",
    )

    def __init__(
        self, path: str, watcher: Callable[[str, bytes], None] | None = None, secrecy: Secrecy | None = None
    ) -> None:
        self.keep = TAIL
        self.most: int | None = None
        self.printed = 0
        self.flooded: Callable[[], None] | None = None
        self.out: Tail | None = None
        self.err: Tail | None = None
        self._path = path
        self._watcher = watcher
        self._log: LogFile | None = None
        self._secrecy = secrecy
        self._streams: dict[str, Stream] = {}
        self._listener: tuple[bytes, Callable[[], None]] | None = None
        self._heard = b""

    def take(self, stream: str, data: bytes) -> None:
        if self.most is not None and not (data := self._within(data, self.most)):
            return
        if self._secrecy is None or self._secrecy.redactor is None:
            self._keep(stream, data)
            return
        if stream not in self._streams:
            self._streams[stream] = self._secrecy.redactor.stream()
        if shown := self._streams[stream].take(data):
            self._keep(stream, shown)

    def _within(self, data: bytes, most: int) -> bytes:
        """What of new output is not beyond the bound."""
        room = max(0, most - self.printed)
        self.printed += len(data)
        if len(data) > room and self.flooded is not None:
            self.flooded()
        return data[:room]

    def _settle(self) -> None:
        """Take what was held back because it might have been the beginning of a secret."""
        for stream, held in self._streams.items():
            if rest := held.rest():
                self._keep(stream, rest)

    def _keep(self, stream: str, data: bytes) -> None:
        if stream == "stderr":
            self.err = self.err or Tail()
            self.err.add(data)
        else:
            self.out = self.out or Tail(self.keep)
            self.out.add(data)
        self._tell(stream, data)
        if self._listener is not None:
            text, heard = self._listener
            joined = self._heard + data
            self._heard = joined[max(0, len(joined) - len(text) + 1) :]
            if text in joined:
                self._listener = None
                heard()

    def listen(self, text: bytes, heard: Callable[[], None]) -> None:
        """Call ``heard`` once when ``text`` is printed."""
        self._listener = (text, heard)

    def keep_to_itself(self) -> None:
        """From now on it goes to the log alone: the attempt that it belongs to has ended."""
        self._watcher = None

    def _tell(self, stream: str, data: bytes) -> None:
        if self._path:
            self._log = self._log or LogFile(self._path)
            self._log.write(data)
        if self._watcher is not None:
            self._watcher(stream, data)

    def remark(self, text: str) -> None:
        """Add a remark about the attempt to its log and the watch; it is not output of the attempt."""
        line = text.encode("utf-8", "replace")
        if self._secrecy is not None and self._secrecy.redactor is not None:
            line = self._secrecy.redactor.bytes(line)
        self._settle()
        self._tell("stderr", b"[%s]\n" % line)

    def texts(self) -> tuple[str, str]:
        """Both tails, to their end."""
        self._settle()
        return (self.out.text() if self.out else "", self.err.text() if self.err else "")

    def close(self) -> str:
        """End the log file; gives what went wrong with it, or nothing."""
        self._settle()
        if self._log is None:
            return ""
        self._log.close()
        return self._log.problem


class LogFile:
    """Both streams of an attempt in the order they were read; the file appears with the first byte.

    Of output beyond ``limit`` bytes the first and the last part are kept, with a line between them that says how much
    is missing; the last part comes into the file at its end. A log that cannot be written never stops a task:
    ``problem`` says what went wrong.
    """

    __slots__ = ("_end", "_handle", "_path", "_room", "dropped", "problem")

    def __init__(self, path: str, limit: int = LOG_LIMIT) -> None:
        self._path = path
        self._handle = -1
        self._end = Tail(min(LOG_END, limit // 2))
        self._room = limit - self._end.limit
        self.dropped = 0
        self.problem = ""

    def write(self, data: bytes) -> None:
        if self.problem:
            self.dropped += len(data)
            return
        now, later = (data, b"") if len(data) <= self._room else (data[: self._room], data[self._room :])
        if now:
            self._put(now)
            self._room -= len(now)
        if later:
            self._end.add(later)
            self.dropped = self._end.dropped

    def _put(self, data: bytes) -> None:
        try:
            if self._handle < 0:
                self._handle = _open(self._path)
            while data:
                data = data[os.write(self._handle, data) :]
        except OSError as error:
            self.problem = f"the log {self._path} cannot be written: {error.strerror}"

    def close(self) -> None:
        """End the file with what was held back for it."""
        if self._handle < 0:
            return
        if self._end.total and not self.problem:
            mark = b"\n[planrunner: %d bytes left out]\n" % self.dropped if self.dropped else b""
            self._put(mark + self._end.data())
        try:
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


LONGEST = 120
"""Characters of a task's path that stand in a file name as they are; longer ones are cut, with a digest."""

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-[]#@*+")


def log_name(task: str, attempt: int) -> str:
    """``polish#1/draft`` and 2 give ``polish#1+draft.2.log``: no id has a ``+``, so paths stay apart."""
    return f"{task if task.isidentifier() and len(task) < LONGEST and task.isascii() else _name(task)}.{attempt}.log"


def _name(task: str) -> str:
    name = task.replace("/", "+")
    if len(name) <= LONGEST and _ALLOWED.issuperset(name) and "+" not in task:
        return name
    kept = "".join(sign if sign in _ALLOWED else "_" for sign in name[: LONGEST - 33])
    return f"{kept}~{sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
