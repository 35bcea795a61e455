"""JSON to the node tree, by the letter of its standard: one value, no comments, no trailing commas.

``flow`` of a collection tells whether it stands on one line, which is what a writer of another notation wants to know.
"""

from __future__ import annotations

import re
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source, Span
from planrunner.syntax.findings import duplicate_key, empty_plan
from planrunner.syntax.limits import (
    MAX_DEPTH,
    MAX_NODES,
    CollectorPaused,
    Refused,
    check_length,
    check_scalar,
    too_deep,
    too_large,
)
from planrunner.syntax.parsed import Parsed
from planrunner.syntax.scalars import Unusable, resolve
from planrunner.syntax.tree import Mapping, Node, Plain, Scalar, Sequence

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:([\[\]{},:])|("[^"\\\x00-\x1f]*")|("))"""[:-3]
    + r"""|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![\w.+-])|(?:true|false|null)(?!\w)))"""
)
_SPACE = re.compile(r"[ \t\r\n]*")
_OTHER = re.compile(r"[^\s,\[\]{}:\"]+")
_HALF = re.compile("[\ud800-\udfff]")


class _Open(NamedTuple):
    """A bracket that is not closed yet, and what stands in it so far; in an object keys and values take turns."""

    children: list[Node]
    is_object: bool
    start: int


def parse_json(source: Source) -> Parsed:
    """Read JSON; the first fault ends it."""
    reader = _Reader(source.text)
    try:
        check_length(source.text)
        with CollectorPaused():
            return Parsed(reader.read(), tuple(reader.findings))
    except Refused as refusal:
        return Parsed(None, (*reader.findings, refusal.finding))


def _wrong(message: str, start: int, end: int = 0, help: str = "") -> Refused:
    return Refused(Diagnostic("PLAN001", message, Span(start, end or start + 1), help=help))


class _Reader:
    def __init__(self, text: str) -> None:
        self.findings: list[Diagnostic] = []
        self._text = text
        self._stack: list[_Open] = []
        self._nodes = 0

    def read(self) -> Node:
        """The one value of the text; raises Refused."""
        at = self._behind_space(1 if self._text[:1] == "\ufeff" else 0)
        if at == len(self._text):
            raise Refused(empty_plan())
        node: Node | None = None
        while node is None:
            node, at = self._value(at)
            while node is not None and self._stack:
                node, at = self._behind_value(node, self._behind_space(at))
        at = self._behind_space(at)
        if at < len(self._text):
            raise self._stray(at, "text stands behind the end of the plan")
        return node

    def _behind_space(self, at: int) -> int:
        return _SPACE.match(self._text, at).end()  # type: ignore[union-attr]

    def _value(self, at: int) -> tuple[Node | None, int]:
        """The value at ``at`` and where it ends; None where it is a bracket that has something in it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise too_large(f"the plan has more than {MAX_NODES:,} nodes", at, at + 1)
        character = self._text[at : at + 1]
        if character in ("[", "{") and character:
            return self._open(at, character == "{")
        if character == '"':
            node = self._string(at)
            return node, node.end
        return self._word(at)

    def _open(self, at: int, is_object: bool) -> tuple[Node | None, int]:
        if len(self._stack) >= MAX_DEPTH:
            raise too_deep(at)
        inside = self._behind_space(at + 1)
        if self._text[inside : inside + 1] == ("}" if is_object else "]"):
            end = inside + 1
            return Mapping([], at, end, True) if is_object else Sequence([], at, end, True), end
        self._stack.append(_Open([], is_object, at))
        return None, self._key(inside) if is_object else inside

    def _key(self, at: int) -> int:
        """Read a key and its colon into the object that is open; gives the start of the value."""
        if self._text[at : at + 1] != '"':
            raise self._stray(at, "a key in double quotes is expected here")
        key = self._string(at)
        self._stack[-1].children.append(key)
        at = self._behind_space(key.end)
        if self._text[at : at + 1] != ":":
            raise self._stray(at, f"a colon is missing behind the key `{str(key.value)[:40]}`")
        return self._behind_space(at + 1)

    def _behind_value(self, node: Node, at: int) -> tuple[Node | None, int]:
        """Put a value into the collection that is open. Gives that collection where it ends here, else None and the next value."""
        frame = self._stack[-1]
        frame.children.append(node)
        character = self._text[at : at + 1]
        if character == ",":
            at = self._behind_space(at + 1)
            if self._text[at : at + 1] in ("]", "}"):
                raise _wrong("a comma stands before the closing bracket", at, help="take the comma away")
            return None, self._key(at) if frame.is_object else at
        if character != ("}" if frame.is_object else "]") or not character:
            raise self._unfinished(frame, at)
        self._stack.pop()
        return self._closed(frame, at + 1), at + 1

    def _closed(self, frame: _Open, end: int) -> Node:
        on_one_line = "\n" not in self._text[frame.start : end]
        if not frame.is_object:
            return Sequence(frame.children, frame.start, end, on_one_line)
        first: dict[Plain, Scalar] = {}
        entries: list[tuple[Scalar, Node]] = []
        for key, value in zip(frame.children[::2], frame.children[1::2]):
            assert isinstance(key, Scalar)
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                entries.append((key, value))
            else:
                self.findings.append(duplicate_key(key, earlier))
        return Mapping(entries, frame.start, end, on_one_line)

    def _unfinished(self, frame: _Open, at: int) -> Refused:
        bracket = self._text[frame.start]
        if at >= len(self._text):
            return _wrong(f"this `{bracket}` is never closed", frame.start)
        close = "}" if frame.is_object else "]"
        return self._stray(at, f"a comma or `{close}` is expected here")

    def _stray(self, at: int, message: str) -> Refused:
        if at >= len(self._text):
            return _wrong(f"{message}, but the text ends", max(at - 1, 0))
        if self._text.startswith(("//", "/*", "#"), at):
            return _wrong("JSON has no comments", at, at + 2, "write the plan in YAML to keep them")
        return _wrong(message, at)

    def _string(self, at: int) -> Scalar:
        try:
            value, end = scanstring(self._text, at + 1, True)
        except JSONDecodeError as error:
            raise self._bad_string(error, at) from None
        check_scalar(len(value), at, end)
        half = _HALF.search(value)
        if half:
            raise _wrong(
                f"the escape \\u{ord(half[0]):04x} is half of a surrogate pair", at, end, "write the character itself"
            )
        return Scalar(value, at, end, self._text[at:end], '"')

    def _bad_string(self, error: JSONDecodeError, at: int) -> Refused:
        if error.msg.startswith("Unterminated"):
            return _wrong("this quote is never closed", at)
        if error.msg.startswith("Invalid control"):
            if self._text[error.pos] in "\r\n":
                return _wrong("this quote is not closed on its line", at, help="write a line break as \\n")
            return _wrong(f"the character U+{ord(self._text[error.pos]):04X} must be written as an escape", error.pos)
        shown = self._text[error.pos : error.pos + 2]
        start = self._text.rfind("\\", at, error.pos + 1)
        shown = self._text[start : start + 2] if start >= 0 else shown
        return _wrong(f"`{shown}` is no escape that JSON knows", max(start, at), max(start, at) + 2)

    def _word(self, at: int) -> tuple[Node, int]:
        found = _WORD.match(self._text, at)
        if found is None:
            raise self._no_word(at)
        raw, end = found[0], found.end()
        try:
            return Scalar(resolve(raw), at, end, raw), end
        except Unusable as problem:
            raise Refused(Diagnostic("PLAN013", str(problem), Span(at, end))) from None

    def _no_word(self, at: int) -> Refused:
        other = _OTHER.match(self._text, at)
        if other is None or self._text[at : at + 1] in ("/", "#"):
            return self._stray(at, "a value is expected here")
        help = "put text in double quotes"
        if self._text[at] == "'":
            help = "JSON has double quotes only"
        return _wrong(f"`{other[0][:40]}` is no value in JSON", at, other.end(), help)
