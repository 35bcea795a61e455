"""What an unquoted word means: the YAML 1.2 core rules, and the words that readers of YAML 1.1 take differently."""

from __future__ import annotations

import re

from planrunner.syntax.tree import Plain

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
        return _finite(text)
    if re.fullmatch(_INFINITE, text):
        raise Unusable(f"`{text}` is not a number that a plan can hold")
    return text


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Unusable(f"`{text[:40]}` is too large for a number")
    return value


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
