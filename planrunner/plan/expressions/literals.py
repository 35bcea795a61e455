"""What literals of expressions stand for; both ways of parsing read them here."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\s\S])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/"}

CONSTANTS = {"true": True, "false": False, "null": None, "none": None, "True": True, "False": False, "None": None}
LONGEST_NUMBER = 30
"""Characters of one number."""


def unquoted(token: str) -> str:
    """The text inside quotes; other backslashes stay, so that patterns such as ``\\d`` are whole."""
    return _ESCAPE.sub(_unescaped, token[1:-1]) if "\\" in token else token[1:-1]


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, match[0])
