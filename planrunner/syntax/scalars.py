"""Scalars: what an unquoted word means by the YAML 1.2 core rules, quoted and block texts, and writing them."""

from __future__ import annotations

import re

from planrunner.records import Struct
from planrunner.syntax.tree import Plain, Scalar

FIRST = frozenset(["", *"~nNtTfFyYoO+-.0123456789"])
"""First characters of the words that may be more than a string or may be misread; any other word is a string."""

NUMERIC = frozenset("+-.0123456789")
"""First characters of everything that is a number to any reader."""

_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

_INT = r"[-+]?[0-9]+"
_BASED = r"0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_INFINITE = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"

_SWITCHES = frozenset(form for word in ("on", "off", "yes", "no") for form in (word, word.title(), word.upper()))
_LETTERS = frozenset("yYnN")
"""Booleans by the letter of YAML 1.1, which hardly a reader follows here: written in quotes, and no finding."""
SPECIAL = _SWITCHES | _WORDS.keys()
"""Together with what begins like a number: the words that may be more than a string or may be misread."""
SUSPICIOUS_KEYS = _SWITCHES - {"on"} | {""}
"""Keys that older readers take for booleans, and the missing key; ``on`` is a key of the plan language."""
_SEXAGESIMAL = r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
_UNDERSCORED = r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)"
_LEADING_ZERO = r"[-+]?0[0-9]+"
_OLD_NUMBER = (
    r"[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9][0-9_]*"
)
_DATE = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:(?s:.*))?"

MAX_DIGITS = 4000
"""Longer integers are refused: Python itself will not convert them."""


class Unusable(ValueError):
    """A number that no plan can hold: not finite or too long; the text says which in words."""


def resolve(text: str) -> Plain:
    """The value of an unquoted scalar. Raises Unusable for infinities, not-a-number and integers of absurd length."""
    if text[:1] not in FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in NUMERIC:
        return text
    if re.fullmatch(_INT, text):
        if len(text) > MAX_DIGITS:
            raise Unusable(f"a whole number has more than {MAX_DIGITS} digits")
        return int(text)
    if re.fullmatch(_BASED, text):
        return int(text, 0)
    if re.fullmatch(_FLOAT, text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise Unusable(f"`{text[:40]}` is too large for a number")
        return value
    if re.fullmatch(_INFINITE, text):
        raise Unusable(f"`{text}` is not a number that a plan can hold")
    return text


def trap(text: str) -> str:
    """What readers of YAML 1.1 take an unquoted word for, in words, or an empty string where they agree with 1.2."""
    if text in _SWITCHES:
        return "a boolean"
    if text[:1] not in NUMERIC:
        return ""
    if re.fullmatch(_LEADING_ZERO, text):
        return "an octal number"
    if re.fullmatch(_SEXAGESIMAL, text):
        return "a number to the base of 60"
    if "_" in text and re.fullmatch(_UNDERSCORED, text):
        return "a number"
    return ""


def reads_as_string(text: str) -> bool:
    """Whether every reader, of YAML 1.1 as of 1.2, takes the unquoted word for a string."""
    if not text or text[0] not in FIRST:
        return bool(text) and text not in ("=", "<<")
    if text in _WORDS or text in _SWITCHES or text in _LETTERS or re.fullmatch(_INFINITE, text):
        return False
    return not any(
        re.fullmatch(form, text) for form in (_INT, _BASED, _FLOAT, _SEXAGESIMAL, _UNDERSCORED, _OLD_NUMBER, _DATE)
    )


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


class Block(Struct):
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


_SHORT = {"\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}
_SHORT |= {"\x1b": "\\e", '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P"}

INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that are written as escapes, in double quotes; the break of a line among them."""
_ESCAPED = re.compile(r'["\\]|' + INVISIBLE.pattern)
_BLOCK_BREAKER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def double_quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def quoted(text: str) -> str:
    """A text in quotes: double ones, or single ones where these save escapes."""
    if INVISIBLE.search(text) or not ('"' in text or "\\" in text):
        return double_quoted(text)
    return "'" + text.replace("'", "''") + "'"


def word(node: Scalar) -> str | None:
    """A null, boolean or number as written, which may be declared text; None for a string."""
    value = node.value
    if isinstance(value, str):
        return None
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not node.style and _says(node.raw, value):
        return node.raw
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _says(raw: str, value: float) -> bool:
    try:
        resolved = resolve(raw) if raw else None
    except Unusable:
        return False
    return type(resolved) is type(value) and resolved == value and repr(resolved) == repr(value)


def is_plain_text(text: str) -> bool:
    """Whether a text may stand without quotes as far as its type, its ends and its characters go."""
    return reads_as_string(text) and text == text.strip() and not INVISIBLE.search(text)


def block_header(text: str) -> str | None:
    """The ``|`` that begins a text of several lines, with its indicators, or None where quotes must hold it."""
    if "\n" not in text or _BLOCK_BREAKER.search(text) or not text.strip("\n"):
        return None
    if text.endswith("\n\n"):
        return None  # empty lines at the end of a block text could not be told from those between tasks
    lines = text.split("\n")
    if any(line and not line.strip() for line in lines):
        return None
    indent = "2" if text.lstrip("\n")[0] in " \t" else ""
    return f"|{indent}" if text.endswith("\n") else f"|{indent}-"


def block_lines(text: str, indent: str) -> list[str]:
    """The lines of a block text; a line that says nothing stays empty."""
    body = text[:-1] if text.endswith("\n") else text
    return [indent + line if line else "" for line in body.split("\n")]
