"""JSON to the node tree by the letter of its standard (one value, no comments, no trailing commas), and back."""

from __future__ import annotations

import re
from json import dumps
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Literal

from planrunner.diagnostics import Diagnostic
from planrunner.records import Struct
from planrunner.source import Source, Span
from planrunner.syntax.limits import (
    MAX_DEPTH,
    MAX_NODES,
    CollectorPaused,
    Refused,
    check_length,
    check_scalar,
    duplicate_key,
    empty_plan,
    too_deep,
    too_large,
)
from planrunner.syntax.scalars import Unusable, resolve, word
from planrunner.syntax.tree import Mapping, Node, Parsed, Plain, Scalar, Sequence

_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:([\[\]{},:])|("[^"\\\x00-\x1f]*"|")|"""
    rf"""({_NUMBER}(?![\w.+-])|(?:true|false|null)(?!\w)))"""
)
_SPACE = re.compile(r"[ \t\r\n]*")
_OTHER = re.compile(r"[^\s,\[\]{}:\"]+")
_HALF = re.compile("[\ud800-\udfff]")

_State = Literal["first", "value", "first key", "key", "colon", "after"]
"""What may come: a value or key (the first one, where a collection may also end), a colon, or what follows a value."""

_CLOSING = {"[": "]", "{": "}"}


class _Open(Struct):
    """What a collection puts aside of the one around it, and where it begins itself."""

    items: list[Node]
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
        self._words: dict[str, Plain] = {}

    def read(self) -> Node:
        """The one value of the text; raises Refused."""
        text, match = self._text, _TOKEN.match
        at = _SPACE.match(text, 1 if text[:1] == "\ufeff" else 0).end()  # type: ignore[union-attr]
        if at == len(text):
            raise Refused(empty_plan())
        items: list[Node] = []
        root, is_object, count = items, False, 0
        state: _State = "value"
        while state != "after" or self._stack:
            token = match(text, at)
            if token is None:
                raise self._unexpected(at, state)
            kind = token.lastindex or 0
            start, at = token.span(kind)
            if kind == 1:
                if state == "after" and text[start] == ",":  # by far the most frequent one
                    state = "key" if is_object else "value"
                else:
                    items, is_object, state = self._mark(start, state, items, is_object)
                continue
            count += 1
            if count > MAX_NODES:
                raise too_large(f"the plan has more than {MAX_NODES:,} nodes", start, at)
            if state in ("colon", "after") or (kind != 2 and state in ("key", "first key")):
                raise self._unexpected(start, state)
            node = self._string(start, at) if kind == 2 else self._word(token[3], start)
            at = node.end
            items.append(node)
            state = "colon" if state in ("key", "first key") else "after"
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text):
            raise self._stray(at, "text stands behind the end of the plan")
        return root[0]

    def _mark(self, start: int, state: _State, items: list[Node], is_object: bool) -> tuple[list[Node], bool, _State]:
        """What a bracket, comma or colon makes of where the reader stands."""
        mark = self._text[start]
        if mark in "[{" and state in ("value", "first"):
            if len(self._stack) >= MAX_DEPTH:
                raise too_deep(start)
            self._stack.append(_Open(items, is_object, start))
            return [], mark == "{", "first key" if mark == "{" else "first"
        if mark == ":" and state == "colon":
            return items, is_object, "value"
        if mark != ("}" if is_object else "]") or state not in ("after", "first", "first key") or not self._stack:
            raise self._unexpected(start, state)
        frame = self._stack.pop()
        frame.items.append(self._closed(items, is_object, frame.start, start + 1))
        return frame.items, frame.is_object, "after"

    def _closed(self, items: list[Node], is_object: bool, start: int, end: int) -> Node:
        on_one_line = "\n" not in self._text[start:end]
        if not is_object:
            return Sequence(items, start, end, on_one_line)
        first: dict[Plain, Scalar] = {}
        entries: list[tuple[Scalar, Node]] = []
        for key, value in zip(items[::2], items[1::2]):
            assert isinstance(key, Scalar)
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                entries.append((key, value))
            else:
                self.findings.append(duplicate_key(key, earlier))
        return Mapping(entries, start, end, on_one_line)

    # scalars

    def _string(self, start: int, end: int) -> Scalar:
        if end == start + 1:
            return self._escaped(start)
        check_scalar(end - start, start, end)
        raw = self._text[start:end]
        return Scalar(raw[1:-1], start, end, raw, '"')

    def _escaped(self, start: int) -> Scalar:
        """A string with escapes in it, or one that is not right."""
        try:
            value, end = scanstring(self._text, start + 1, True)
        except JSONDecodeError as error:
            raise self._bad_string(error, start) from None
        check_scalar(len(value), start, end)
        half = _HALF.search(value)
        if half:
            message = f"the escape \\u{ord(half[0]):04x} is half of a surrogate pair"
            raise _wrong(message, start, end, "write the character itself")
        return Scalar(value, start, end, self._text[start:end], '"')

    def _word(self, raw: str, start: int) -> Scalar:
        if raw not in self._words:
            try:
                self._words[raw] = resolve(raw)
            except Unusable as problem:
                raise Refused(Diagnostic("PLAN013", str(problem), Span(start, start + len(raw)))) from None
        return Scalar(self._words[raw], start, start + len(raw), raw)

    # findings

    def _unexpected(self, at: int, state: _State) -> Refused:
        """The finding for what stands behind ``at`` and cannot follow there."""
        at = _SPACE.match(self._text, at).end()  # type: ignore[union-attr]
        character = self._text[at : at + 1]
        if character and character in "]}" and state in ("key", "value") and self._stack:
            return _wrong("a comma or colon has nothing behind it", at, help="write the value, or take the comma away")
        if state == "colon":
            return self._stray(at, "a colon is missing behind this key" if character else "a colon is missing")
        if state == "after":
            bracket = self._text[self._stack[-1].start]
            if not character:
                return _wrong(f"this `{bracket}` is never closed", self._stack[-1].start)
            return self._stray(at, f"a comma or `{_CLOSING[bracket]}` is expected here")
        if state in ("key", "first key"):
            return self._stray(at, "a key in double quotes is expected here")
        other = _OTHER.match(self._text, at)
        if other is None or character in ("/", "#"):
            return self._stray(at, "a value is expected here")
        help = "JSON has double quotes only" if character == "'" else "put text in double quotes"
        return _wrong(f"`{other[0][:40]}` is not a value in JSON", at, other.end(), help)

    def _stray(self, at: int, message: str) -> Refused:
        if at >= len(self._text):
            return _wrong(f"{message}, but the text ends", max(len(self._text.rstrip()) - 1, 0))
        if self._text.startswith(("//", "/*", "#"), at):
            return _wrong("JSON has no comments", at, at + 2, "write the plan in YAML to keep them")
        return _wrong(message, at)

    def _bad_string(self, error: JSONDecodeError, at: int) -> Refused:
        if error.msg.startswith("Unterminated"):
            return _wrong("this quote is never closed", at)
        if error.msg.startswith("Invalid control"):
            if self._text[error.pos] in "\r\n":
                return _wrong("this quote is not closed on its line", at, help="write a line break as \\n")
            message = f"the character U+{ord(self._text[error.pos]):04X} must be written as an escape"
            return _wrong(message, error.pos)
        start = max(self._text.rfind("\\", at, error.pos + 1), at)
        return _wrong(f"`{self._text[start : start + 2]}` is not an escape of JSON", start, start + 2)


WIDTH = 100


def write_json(tree: Node) -> str:
    """JSON that reads as equal data; shared nodes are written out each time."""
    return _value(tree, "", 0) + "\n"


def _value(node: Node, indent: str, column: int) -> str:
    if isinstance(node, Scalar):
        return _line(node)
    if node.flow and indent:
        line = _line(node)
        if column + len(line) <= WIDTH:
            return line
    deeper = indent + "  "
    if isinstance(node, Sequence):
        items = [f"{deeper}{_value(item, deeper, len(deeper))}" for item in node.items]
        return "[\n" + ",\n".join(items) + f"\n{indent}]" if items else "[]"
    names = [f"{deeper}{_name(key)}: " for key, _ in node.entries]
    values = [_value(value, deeper, len(name)) for name, (_, value) in zip(names, node.entries)]
    return "{\n" + ",\n".join(name + value for name, value in zip(names, values)) + f"\n{indent}}}" if names else "{}"


def _line(node: Node) -> str:
    if isinstance(node, Scalar):
        return word(node) if _is_number(node) else dumps(node.value, ensure_ascii=False)  # type: ignore[return-value]
    if isinstance(node, Sequence):
        return f"[{', '.join(_line(item) for item in node.items)}]"
    return f"{{{', '.join(f'{_name(key)}: {_line(value)}' for key, value in node.entries)}}}"


def _is_number(node: Scalar) -> bool:
    """Whether a number is written as JSON writes one: then its digits stay."""
    return re.fullmatch(_NUMBER, node.raw) is not None and not isinstance(node.value, str)


def _name(key: Scalar) -> str:
    return dumps(str(key.value), ensure_ascii=False)
