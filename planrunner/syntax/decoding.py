"""Bytes of a file to the text of a plan."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source, Span, notation_of
from planrunner.syntax.limits import MAX_TEXT

_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def decode(data: bytes, name: str) -> tuple[Source | None, tuple[Diagnostic, ...]]:
    """The source for the bytes of a file, its notation taken from its name, or the finding why they are no plan.

    A byte order mark of UTF-8 is dropped. Never raises; the span of a finding is the start of the text, because what
    cannot be decoded has no characters to point at; the message has the offset in bytes.
    """
    if len(data) > MAX_TEXT:
        return None, (
            _finding("PLAN011", f"the file has {len(data):,} bytes; a plan has at most {MAX_TEXT:,}", "split the plan"),
        )
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return None, (
                _finding(
                    "PLAN012", f"the file is {encoding}; plans are UTF-8", f"convert it: `iconv -f {encoding} -t UTF-8`"
                ),
            )
    if b"\0" in data:
        at = data.index(b"\0")
        return None, (_finding("PLAN012", f"the file is not text: byte {at} is NUL", "a plan is UTF-8 text"),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the file is not UTF-8: byte {error.start}, on line {line}, is 0x{data[error.start]:02x}"
        return None, (_finding("PLAN012", message, "save it as UTF-8"),)
    return Source(text, name, notation_of(name)), ()


def _finding(code: str, message: str, help: str) -> Diagnostic:
    return Diagnostic(code, message, Span(0, 0), help=help)
