"""Untrusted text made harmless, for people who read it and for the terminals that show it.

``escaped`` writes out whatever cannot be seen, as in C, the way git writes odd names of files; ``harmless`` leaves it
out where it is of no use; ``tame`` and ``quiet`` let pass what a terminal may be told.
"""

from __future__ import annotations

import re
from typing import Any

from planrunner.later import Later

urlsplit = Later("urllib.parse:urlsplit")

_LETTERS = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"}


def escaped(text: str) -> str:
    """Control characters as ``\\n`` or ``\\033``, the bytes that lone surrogates stand for as ``\\377``, others without
    a picture as ``\\u202e``; all else as it is."""
    return text if text.isprintable() else "".join(map(_escape, text))


def escaped_line(text: str) -> str:
    """A line of a diff in the same way, tabs as spaces."""
    return "\t".join(map(escaped, text.split("\t"))).expandtabs(4)


def quoted(path: str, before: str = "") -> str:
    """A path as git writes it: in quotes where it holds what cannot be seen, a quote or a backslash. ``before`` stands
    in front of it, inside of the quotes."""
    path = f"{before}{path}"
    if path.isprintable() and '"' not in path and "\\" not in path:
        return path
    slashed = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(map(_byte_escape, slashed))}"'


def _escape(sign: str) -> str:
    code = ord(sign)
    if sign.isprintable():
        return sign
    if code in _LETTERS:
        return f"\\{_LETTERS[code]}"
    if code < 0x80:
        return f"\\{code:03o}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\{code - 0xDC00:03o}"
    return numbered(sign)


def numbered(sign: str) -> str:
    """A character by its number."""
    code = ord(sign)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _byte_escape(sign: str) -> str:
    """As ``_escape``, with bytes for all else: what reads a diff knows no other."""
    if sign.isprintable() or ord(sign) < 0x80:
        return _escape(sign)
    return "".join(f"\\{byte:03o}" for byte in sign.encode("utf-8", "surrogateescape"))


TURNING = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that turn the direction of writing, and ends of lines that no terminal shows."""


_UNSEEN = frozenset("\x85\u00ad\u180e\u200b\u2060\u2061\u2062\u2063\u2064\ufeff")
"""Characters without a picture that stand inside words."""


def quiet(text: str) -> str:
    """The text without what acts beyond the controls of seven bits: those of eight, marks that turn the writing, tags.
    They stand as ``\\u202e``, which in JSON means the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join([_json_escape(sign) if _acts(sign) else sign for sign in text])


def _acts(sign: str) -> bool:
    return "\x7f" <= sign <= "\x9f" or sign in TURNING or "\U000e0000" <= sign <= "\U000e007f"


def _json_escape(sign: str) -> str:
    """A character as JSON escapes it."""
    code = ord(sign)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 | code & 0x3FF:04x}"


def harmless(text: str) -> str:
    """Text of a task or a plan as anybody may see it: without control characters, so that it cannot move the cursor or
    recolour the screen, with characters that hide or turn others as ``\\u202e``, and without the passwords of
    addresses."""
    text = text if text.isprintable() else _printable(text)
    if "://" not in text:
        return text
    return masked(text)


def _printable(text: str) -> str:
    text = text.expandtabs(4)
    kept: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\x1b":
            at = _after_escape(text, at)
            continue
        if char.isprintable():
            kept.append(char)
        elif char in _UNSEEN or char in TURNING or "\U000e0000" <= char <= "\U000e007f":
            kept.append(_json_escape(char))  # what people approve must not read otherwise than it runs
        at += 1
    return "".join(kept)


def _after_escape(text: str, at: int) -> int:
    """The place after an escape sequence: CSI up to its final byte, OSC up to BEL or ST, else two characters."""
    kind = text[at + 1 : at + 2]
    if kind == "[":
        at += 2
        while at < len(text) and not "@" <= text[at] <= "~":
            at += 1
        return at + 1
    if kind == "]":
        while at < len(text) and text[at] != "\x07" and text[at : at + 2] != "\x1b\\":
            at += 1
        return at + (1 if text[at : at + 1] == "\x07" else 2)
    return at + 2


_ACTING = r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f]|\x1b"
_HIDES = r"[\[;]0*8[;m]"
"""A colour that makes text invisible."""


def tame(text: str) -> str:
    """The text as a terminal may have it: colours stay, line ends and tabs, and nothing else that acts."""
    if text.isprintable():
        return text
    return quiet(re.sub(_ACTING, _kept, text.replace("\r\n", "\n").replace("\r", "\n")))


def _kept(match: re.Match[str]) -> str:
    text = match[0]
    return text if len(text) > 1 and not re.search(_HIDES, text) else _json_escape(text[0]) + text[1:]


HIDDEN = "***"


def masked(text: str) -> str:
    """A text with ``***`` for the password of each address in it: ``https://me:***@host/``."""
    if "://" not in text or "@" not in text:
        return text
    return re.sub(r"(://[^\s/:@'\"]{0,256}):[^\s/'\"]{0,1024}@", rf"\1:{HIDDEN}@", text)


def masked_data(value: Any) -> Any:
    """JSON data with every text in it masked, keys of maps included."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, (list, tuple)):
        return [masked_data(each) for each in value]
    if isinstance(value, dict):
        return {masked_data(name): masked_data(each) for name, each in value.items()}
    return value


def without_password(address: str) -> str:
    """The address of a database as it may be shown: scheme, host, port and path."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}" if parts.scheme else "what is not an address"


def database_advice(said: str, named: str) -> str:
    """What to do about an error of a PostgreSQL client. ``said`` is its text, ``named`` says what holds the address."""
    if any(words in said for words in _UNREADABLE):
        return f"correct the address in {named}; inside a value write `=` as `%3D`: `options=-csearch_path%3Dshop`"
    if any(words in said for words in _REFUSED):
        return f"the server refuses what {named} says"
    return "try again when the server answers"


_UNREADABLE = ("key/value separator", "invalid URI", "connection is bad: invalid", "percent-encoded")
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf entry")
