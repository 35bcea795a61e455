"""What others wrote, byte by byte, on a terminal: read and never obeyed. Colours stay."""

from __future__ import annotations

import re

_COLOUR = rb"\x1b\[[0-9;:]*m"
_STEERS = (
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"  # all that is below a space but the tab and the ends of lines
    rb"|\r(?!\n)"  # writing over the line that stands there
    rb"|\xc2[\x80-\x9f]"  # the same set with the high bit
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xa9]|\xd8\x9c|\xef\xbb\xbf"  # what turns or hides text
)
_PATTERN = re.compile(rb"(%s)|(?:%s)" % (_COLOUR, _STEERS))
_UNFINISHED = re.compile(rb"(?:\r|\x1b(?:\[[0-9;:]{0,32})?|\xc2|\xd8|\xef\xbb?|\xe2[\x80\x81]?)\Z")


class ShownBytes:
    """Makes pieces of a text harmless as they come; what a piece leaves unfinished waits for the next."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = b""

    def add(self, piece: bytes) -> bytes:
        """The piece with everything that would steer a terminal written out, such as ``\\x1b``."""
        data = self._left + piece
        open_end = _UNFINISHED.search(data)
        cut = open_end.start() if open_end is not None else len(data)
        self._left = data[cut:]
        return _PATTERN.sub(_written, data[:cut])

    def end(self) -> bytes:
        """What was left at the end."""
        left, self._left = self._left, b""
        return _PATTERN.sub(_written, left)


def _written(found: re.Match[bytes]) -> bytes:
    colour: bytes | None = found[1]
    return colour if colour is not None else b"".join(b"\\x%02x" % byte for byte in found[0])
