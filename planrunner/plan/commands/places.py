"""Where in the file the characters of a command stand, whatever quotes, escapes and indentation lie between."""

from __future__ import annotations

from planrunner.source import Span
from planrunner.syntax.tree import Scalar


class Places:
    """The places of a text inside the scalar it was read from."""

    __slots__ = ("_node", "_offsets", "_text")

    def __init__(self, node: Scalar, text: str) -> None:
        self._node = node
        self._text = text
        self._offsets: list[int] | None = None

    def span(self, start: int, end: int) -> Span:
        """The place in the file of a part of the text."""
        node, text = self._node, self._text
        at = node.raw.find(text)
        if at >= 0 and node.raw.find(text, at + 1) < 0:
            return Span(node.start + at + start, node.start + at + end)
        if self._offsets is None:
            self._offsets = _followed(text, node)
        if start >= len(self._offsets):
            return node.span
        return Span(self._offsets[start], self._offsets[max(start, min(end, len(self._offsets)) - 1)] + 1)


def _followed(text: str, node: Scalar) -> list[int]:
    """The place of each character: what is written is read along with it, over indentation and escapes. A space or a
    line end stands where the character before it ended."""
    raw = node.raw
    at = raw.find("\n") + 1 if node.style in ("|", ">") else int(node.style in ("'", '"'))
    found: list[int] = []
    for character in text:
        here = raw.find(character, at) if not character.isspace() else -1
        if here >= 0:
            at = here + 1
        found.append(node.start + (here if here >= 0 else min(at, max(len(raw) - 1, 0))))
    return found
