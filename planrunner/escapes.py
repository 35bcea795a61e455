"""Text with whatever cannot be seen written out as in C, the way git writes odd names of files."""

from __future__ import annotations

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
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _byte_escape(sign: str) -> str:
    """As ``_escape``, with bytes for all else: what reads a diff knows no other."""
    if sign.isprintable() or ord(sign) < 0x80:
        return _escape(sign)
    return "".join(f"\\{byte:03o}" for byte in sign.encode("utf-8", "surrogateescape"))
