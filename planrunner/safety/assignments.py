"""Files of ``NAME=value`` lines, such as ``.env``, as python-dotenv reads them; ``$`` stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import NamedTuple


class Assignment(NamedTuple):
    """``value`` is None for a line without ``=``; ``name`` is empty for one that is not understood, such as one whose
    quote is not closed. ``line`` counts from 1."""

    name: str
    value: str | None
    line: int
    text: str


def assignments(text: str) -> Iterator[Assignment]:
    """What a file assigns, in its order, without comments and empty lines."""
    from dotenv.parser import parse_stream  # late: most projects have no such file

    for binding in parse_stream(StringIO(text)):
        written = binding.original.string
        body = written.lstrip()
        line = binding.original.line + written[: len(written) - len(body)].replace("\r\n", "\n").count("\n")
        if binding.error or binding.key is not None:
            yield Assignment(binding.key or "", binding.value, line, body)
