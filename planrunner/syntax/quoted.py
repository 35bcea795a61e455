"""Quoted texts and block texts of the text notation: from how they are written to what they say, as YAML has it."""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


class BadEscape(ValueError):
    """A backslash with something behind it that names no character; ``at`` is its offset in the quoted text."""

    def __init__(self, shown: str, at: int) -> None:
        super().__init__(shown)
        self.shown = shown
        self.at = at


def unquote(raw: str) -> str:
    """What a quoted text, quotes included, says. Raises BadEscape."""
    inner = raw[1:-1]
    if raw[0] == "'":
        return inner.replace("''", "'")
    if "\\" not in inner:
        return inner
    text = _ESCAPE.sub(_character, inner)
    text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    half = _HALF.search(text)
    if half:
        raise BadEscape(f"\\u{ord(half[0]):04x}", max(raw.lower().find(f"\\u{ord(half[0]):04x}"), 0))
    return text


def _character(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits:
        number = int(digits, 16)
        if number > 0x10FFFF:
            raise BadEscape(escape[0], escape.start() + 1)
        return chr(number)
    if escape[4] not in _ESCAPES:
        raise BadEscape(escape[0], escape.start() + 1)
    return _ESCAPES[escape[4]]


class Block(NamedTuple):
    """The header of a block text: the style ``|`` or ``>``, and the chomping ``+``, ``-`` or empty."""

    style: str
    chomping: str


def block_text(header: Block, lines: list[str], final_break: bool) -> str:
    """What a block text says, from its lines without their indentation and line breaks (a blank line is empty).

    ``final_break`` tells whether a line break follows the last line; at the end of a file there may be none.
    """
    last = len(lines)
    while last and not lines[last - 1]:
        last -= 1
    body, blanks = lines[:last], len(lines) - last
    text = "\n".join(body) if header.style == "|" else _fold(body)
    if header.chomping == "+":
        return text + "\n" * (blanks + bool(body) - (not final_break))
    if header.chomping == "-" or not body:
        return text
    return text + "\n" if blanks or final_break else text


def _fold(lines: list[str]) -> str:
    """Lines as one: a break becomes a space, unless a line beside it is indented; blank lines stand for breaks."""
    parts: list[str] = []
    blanks, before = 0, ""
    for line in lines:
        if not line:
            blanks += 1
            continue
        if not before:
            parts.append("\n" * blanks)
        elif before[0] in " \t" or line[0] in " \t":
            parts.append("\n" * (blanks + 1))
        else:
            parts.append("\n" * blanks or " ")
        parts.append(line)
        blanks, before = 0, line
    return "".join(parts)
