"""SQL as text: its statements, their strings and comments, and values beside them, on their way in and out."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure

_COMMENTS = r"--[^\n]*|/\*"
_QUOTED = {
    "sqlite": r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]",
    "postgresql": r"(?<![A-Za-z0-9_])[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
    r"|(?<![A-Za-z0-9_$])\$(?P<tag>[A-Za-z_][A-Za-z0-9_]*)?\$.*?\$(?(tag)(?P=tag))\$",
}
_OPEN = {"sqlite": "['\"`]", "postgresql": "['\"]"}
_TOKENS = {
    dialect: re.compile(f"(?P<comment>{_COMMENTS})|(?P<quoted>{quoted})|(?P<open>{_OPEN[dialect]})|;", re.DOTALL)
    for dialect, quoted in _QUOTED.items()
}
_ATOMIC = re.compile(r"\bBEGIN\s+ATOMIC\b", re.IGNORECASE)
_OPENS = re.compile(r"\b(?:CASE|BEGIN\s+ATOMIC)\b", re.IGNORECASE)
_ENDS = re.compile(r"\bEND\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")
_OF_THE_TRANSACTION = frozenset(
    ("ABORT", "ATTACH", "BEGIN", "COMMIT", "DETACH", "END", "RELEASE", "ROLLBACK", "SAVEPOINT", "START")
)

_PREPARED = re.compile(r"PREPARE\s+TRANSACTION\b", re.IGNORECASE)


class Piece(NamedTuple):
    """A part of a statement: ``kind`` is code, quoted, comment or end (the semicolon)."""

    kind: str
    text: str


def pieces(text: str, dialect: str) -> Iterator[Piece]:
    """The parts of a text in their order. Raises Failure for a string or a comment that never ends."""
    at = 0
    while token := _TOKENS[dialect].search(text, at):
        if token.start() > at:
            yield Piece("code", text[at : token.start()])
        if token["open"]:
            line = text.count("\n", 0, token.start()) + 1
            raise Failure(f"the string that starts in line {line} of the statement never ends")
        end = token.end()
        if token[0] == "/*":
            end = _end_of_comment(text, token.start(), nested=dialect == "postgresql")
        kind = "comment" if token["comment"] else "quoted" if token["quoted"] else "end"
        yield Piece(kind, text[token.start() : end])
        at = end
    if at < len(text):
        yield Piece("code", text[at:])


def _end_of_comment(text: str, start: int, nested: bool) -> int:
    depth, at = 0, start
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        if mark[0] == "*/":
            depth -= 1
        elif nested or depth == 0:
            depth += 1
        at = start + mark.end()
        if depth == 0:
            return at
    raise Failure(f"the comment that starts in line {text.count(chr(10), 0, start) + 1} of the statement never ends")


def statements(text: str, dialect: str) -> list[str]:
    """The statements of a script. The body of a trigger of SQLite, or of a function of PostgreSQL that begins with
    BEGIN ATOMIC, belongs to its statement."""
    texts: list[str] = []
    now: list[Piece] = []
    for piece in pieces(text, dialect):
        if piece.kind != "end":
            now.append(piece)
            continue
        if not _is_complete(now, dialect):
            now.append(Piece("code", ";"))
            continue
        texts.append(_written(now))
        now = []
    texts.append(_written(now))
    return [statement for statement in texts if statement]


def _is_complete(now: list[Piece], dialect: str) -> bool:
    """Whether a statement ends at the semicolon behind these pieces."""
    if dialect == "sqlite":
        return sqlite3.complete_statement(f"{''.join(piece.text for piece in now)};")
    code = " ".join(piece.text for piece in now if piece.kind == "code")
    return _ATOMIC.search(code) is None or len(_ENDS.findall(code)) >= len(_OPENS.findall(code))


def _written(parts: list[Piece]) -> str:
    return "".join(piece.text for piece in parts).strip() if any(_says(piece) for piece in parts) else ""


def _says(piece: Piece) -> bool:
    return piece.kind != "comment" and bool(piece.text.strip(" \t\r\n;"))


def in_a_line(text: str, dialect: str) -> str:
    """A statement as people read it: without comments, in one line as far as its strings allow."""
    parts = [piece.text if piece.kind == "quoted" else re.sub(r"\s+", " ", piece.text)
             for piece in pieces(text, dialect) if piece.kind != "comment"]  # fmt: skip
    return "".join(parts).strip()


def words(text: str, dialect: str) -> set[str]:
    """The words of a statement outside of its strings and comments, in capitals."""
    by_piece = (_WORD.findall(piece.text) for piece in pieces(text, dialect) if piece.kind == "code")
    return {word.upper() for each in by_piece for word in each}


def first_word(text: str, dialect: str) -> str:
    """The word that a statement begins with, in capitals."""
    for piece in pieces(text, dialect):
        if piece.kind == "code" and (word := _WORD.search(piece.text)):
            return word[0].upper()
    return ""


def lines(text: str, texts: list[str], dialect: str) -> list[int]:
    """The line of a script in which each of its ``statements`` begins, comments before it left out."""
    numbers, at, line, counted = [], 0, 1, 0
    for statement in texts:
        at, skipped = text.index(statement, at), 0
        for piece in pieces(statement, dialect):
            if _says(piece):
                skipped += len(piece.text) - len(piece.text.lstrip())
                break
            skipped += len(piece.text)
        line += text.count("\n", counted, at + skipped)
        counted = at + skipped
        numbers.append(line)
        at += len(statement)
    return numbers


def single(text: str, dialect: str) -> str:
    """The one statement that a text holds; raises Failure for no statement, several, or one about the transaction."""
    texts = statements(text, dialect)
    if len(texts) != 1:
        raise Failure(
            "the text has no statement"
            if not texts
            else f"`statement` takes one statement, not {len(texts)}; `sql.script` executes the statements of a file"
        )
    word = first_word(texts[0], dialect)
    if word in _OF_THE_TRANSACTION or (word == "PREPARE" and _PREPARED.match(in_a_line(texts[0], dialect))):
        raise Failure(f"{word} is not allowed: the task is one transaction", rule="sql.transaction")
    return texts[0]


_VALUE = re.compile(r"(?P<in>\b(?P<not>not\s+)?in\s+)?(?<![:\w]):(?P<name>[A-Za-z_]\w*)", re.IGNORECASE)


class Bound(NamedTuple):
    """A statement for the driver, and the values beside it."""

    text: str
    values: dict[str, Any]


def bound(statement: str, dialect: str, params: dict[str, Any]) -> Bound:
    """Hand values to the driver: ``:name`` in the code of a statement, not in its strings and comments, is the value of
    that name. Raises Failure for names without a value and values without a name."""
    binder = _Binder(dialect, params)
    text = "".join(binder.code(piece.text) if piece.kind == "code" else binder.plain(piece.text)
                   for piece in pieces(statement, dialect))  # fmt: skip
    if missing := sorted(binder.named - params.keys()):
        raise Failure(f"the statement has no value for {', '.join(f'`:{name}`' for name in missing)}")
    if unused := sorted(params.keys() - binder.named):
        raise Failure(f"the statement does not use {', '.join(f'`:{name}`' for name in unused)}")
    return Bound(text, binder.values)


def names(statement: str, dialect: str) -> set[str]:
    """The names of the values that a statement takes."""
    binder = _Binder(dialect, {})
    for piece in pieces(statement, dialect):
        if piece.kind == "code":
            binder.code(piece.text)
    return binder.named


class _Binder:
    """Rewrites the names of values into those of a driver: ``:x`` for SQLite, ``%(x)s`` for PostgreSQL."""

    __slots__ = ("_params", "_postgresql", "named", "values")

    def __init__(self, dialect: str, params: dict[str, Any]) -> None:
        self._postgresql = dialect == "postgresql"
        self._params = params
        self.named: set[str] = set()
        self.values: dict[str, Any] = {}

    def plain(self, text: str) -> str:
        return text.replace("%", "%%") if self._postgresql else text

    def code(self, text: str) -> str:
        return _VALUE.sub(self._place, self.plain(text))

    def _place(self, match: re.Match[str]) -> str:
        name, after_in = match["name"], match["in"] or ""
        self.named.add(name)
        value = self._params.get(name)
        if not isinstance(value, list):
            return after_in + self._mark(name, json.dumps(value) if isinstance(value, dict) else value)
        if not after_in:
            if not self._postgresql:
                raise Failure(f"`:{name}` is a list, which SQLite takes after IN alone")
            return self._mark(name, value)
        if not value and self._postgresql:  # an empty list in brackets is not SQL there
            return ("<> ALL (" if match["not"] else "= ANY (") + self._mark(name, "{}") + ")"
        marks = [self._mark(self._free(f"{name}__{number}"), each) for number, each in enumerate(value)]
        return f"{after_in}({', '.join(marks)})"

    def _free(self, name: str) -> str:
        """A name for a part of a list, which no value of the task has."""
        while name in self._params:
            name += "_"
        return name

    def _mark(self, name: str, value: Any) -> str:
        self.values[name] = value
        return f"%({name})s" if self._postgresql else f":{name}"


def data(value: Any) -> Any:
    """A value of a database as JSON data: decimals, dates, UUIDs and the like as text, bytes in base64, infinity and
    not-a-number as text too."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [data(item) for item in value]
    if hasattr(value, "total_seconds"):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
