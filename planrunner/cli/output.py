"""Standard streams: open even where they were closed, and harmless where they are terminals.

What tasks, plans and files say cannot act on a terminal: only colours and line breaks get through."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from planrunner.errors import UsageError
from planrunner.escapes import tame
from planrunner.later import Later

if TYPE_CHECKING:
    from planrunner.views.documents import document_text
else:
    document_text = Later("planrunner.views.documents:document_text")


def open_standard_streams() -> None:
    """Put ``/dev/null`` wherever a standard descriptor is closed, and a stream where the interpreter made none.

    The descriptor matters as much as the stream: left free, it would go to the next file that is opened, and whatever
    a task or the interpreter prints would end up in that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _fill(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null == number:
        os.set_inheritable(null, True)
    else:
        os.dup2(null, number)
        os.close(null)


class Screen:
    """A stream on a terminal. ``own`` is the stream itself, for those who draw."""

    __slots__ = ("__weakref__", "own")

    def __init__(self, own: TextIO) -> None:
        self.own = own

    def write(self, text: str) -> int:
        return self.own.write(tame(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def guard_terminals() -> None:
    """Put a ``Screen`` before each standard stream that is a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Screen) and stream.isatty():
            setattr(sys, name, Screen(stream))


def print_document(found: Any, line: bool = False) -> None:
    """Write a document for programs to standard output, indented or as one ``line``."""
    sys.stdout.write(document_text(found, line))
    sys.stdout.flush()


def write_file(path: str, text: str) -> None:
    """Write a file that an option names. Raises UsageError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


def require_writable(path: str) -> None:
    """Raises UsageError for a file that ``write_file`` could not write, before long work is done for it."""
    folder = os.path.dirname(path) or "."
    why = ""
    if os.path.isdir(path):
        why = "it is a folder"
    elif not os.path.isdir(folder):
        why = f"there is no folder `{folder}`"
    elif not os.access(path if os.path.lexists(path) else folder, os.W_OK):
        why = "permission denied"
    if why:
        raise UsageError(f"`{path}` cannot be written: {why}")


def byte_writer() -> Callable[[bytes], object]:
    """What writes bytes to standard output: as they are, but to a terminal as text in which nothing acts."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer.write
    decoder = getincrementaldecoder("utf-8")("replace")  # a character may lie across two pieces
    return lambda piece: sys.stdout.write(tame(decoder.decode(piece)))
