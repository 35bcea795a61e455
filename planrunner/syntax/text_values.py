"""The values of the text notation: plain words, quoted texts, block texts and collections in brackets."""

from __future__ import annotations

import re

from planrunner.diagnostics import Diagnostic, Fix
from planrunner.source import Span
from planrunner.syntax.limits import MAX_DEPTH, MAX_NODES, check_scalar, too_deep, too_large
from planrunner.syntax.quoted import BadEscape, Block, block_text, unquote
from planrunner.syntax.scalars import FIRST, Unusable, resolve
from planrunner.syntax.tree import Plain, Scalar


class Lexeme:
    """A word of the notation. ``type`` is a terminal of ``grammar/plan.lark`` or FAULT, ``first`` marks the first one
    of a line or item, ``node`` is the scalar of a key or value, ``finding`` tells what a FAULT is."""

    __slots__ = ("end", "finding", "first", "node", "start", "type")

    def __init__(self, type: str, start: int, end: int, node: Scalar | None = None, first: bool = False) -> None:
        self.type = type
        self.start = start
        self.end = end
        self.node = node
        self.first = first
        self.finding: Diagnostic | None = None


class Fault(Exception):
    """The rest of the line cannot be read."""

    def __init__(self, message: str, start: int, end: int = 0, help: str = "", fix: Fix | None = None) -> None:
        super().__init__(message)
        self.finding = Diagnostic("PLAN001", message, Span(start, end or start + 1), help=help, fix=fix)


END = r"(?=[ \t]*(?:[ \t]\#[^\n]*)?\r?(?:\n|\Z))"
WORD_END = r"(?=[ \t\r\n]|\Z)"
SPACE = re.compile(r"[ \t]*")
TO_END = re.compile(r"[ \t]*(?:(?<=[ \t])\#[^\n]*)?(?=\r?(?:\n|\Z))")
DOUBLE = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"')
SINGLE = re.compile(r"'(?:[^'\r\n]|'')*'")
PLAIN = re.compile(r"[^ \t\r\n#][^ \t\r\n]*(?:[ \t]+[^ \t\r\n#][^ \t\r\n]*)*")
BLOCK = re.compile(rf"([|>])([+-]?[1-9]?|[1-9][+-]){END}")
BARE = re.compile(r"""(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n"'\[{])(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n])*""")
_FLOW_SPACE = re.compile(r"(?:[ \t]*(?:(?<=[ \t\n])\#[^\n]*)?\r?\n)*[ \t]*")
FLOW_PLAIN = re.compile(
    r"""(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n,\[\]{}:\#"']|:(?![ \t\r\n,\[\]{}]|\Z))"""
    r"""(?:[ \t]*(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n,\[\]{}:\#]|:(?![ \t\r\n,\[\]{}]|\Z)|(?<![ \t])\#))*"""
)
_COLON = re.compile(r"[ \t]*:")
_BRACKETS = {"[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "_COMMA"}


class ValueLexer:
    """Finds the values in a text and puts their lexemes into ``out``; ``indents`` are the columns of open blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._values = 0
        self._words: dict[str, Plain] = {}
        self.out: list[Lexeme] = []
        self.indents = [0]

    def emit(self, type: str, start: int, end: int, node: Scalar | None = None, first: bool = False) -> None:
        self.out.append(Lexeme(type, start, end, node, first))

    def line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def next_line(self, at: int) -> int:
        return self.line_end(at) + 1

    def value(self, at: int, column: int) -> int:
        """A value that takes the rest of its line, and the lines of a block text or of brackets; gives its end."""
        text, first = self._text, self._text[at]
        if first in "|>" and (block := BLOCK.match(text, at)):
            return self._block(block, column)
        if first in "\"'":
            node = self.quoted(at)
            self._nothing_behind(node.end, "its closing quote")
        elif first in "[{" and text[at : at + 2] != "{{":
            end = self.collection(at)
            self._nothing_behind(end, f"`{text[end - 1]}`")
            return end
        else:
            plain = PLAIN.match(text, at)
            if plain is None:
                raise Fault("a value is missing here", at)
            node = self.plain(plain[0], at)
        self.emit("SCALAR", at, node.end, node)
        return node.end

    def _nothing_behind(self, at: int, what: str) -> None:
        if not TO_END.match(self._text, at):
            at = SPACE.match(self._text, at).end()  # type: ignore[union-attr]
            raise Fault(
                f"the value goes on after {what}",
                at,
                help="quote the whole value, with the other kind of quotes if need be",
            )

    def plain(self, raw: str, start: int) -> Scalar:
        if raw[0] not in FIRST:
            return self.checked(Scalar(raw, start, start + len(raw), raw))
        if raw not in self._words:
            try:
                self._words[raw] = resolve(raw)
            except Unusable as problem:
                fault = Fault(str(problem), start, start + len(raw), help="quote it if text is meant")
                fault.finding = fault.finding._replace(code="PLAN013")
                raise fault from None
        return self.checked(Scalar(self._words[raw], start, start + len(raw), raw))

    def quoted(self, start: int) -> Scalar:
        quote = self._text[start]
        found = (DOUBLE if quote == '"' else SINGLE).match(self._text, start)
        if found is None:
            raise Fault(f"this quote ({quote}) is never closed", start, help="close it on the same line")
        return self.checked(Scalar(self._unquoted(found[0], start), start, found.end(), found[0], quote))

    def _unquoted(self, raw: str, start: int) -> str:
        try:
            return unquote(raw)
        except BadEscape as bad:
            at = start + bad.at
            help = "write `\\\\` for a backslash, or use single quotes"
            raise Fault(
                f"`{bad.shown}` is no escape that names a character", at, at + len(bad.shown), help=help
            ) from None

    def name(self, raw: str, start: int) -> Scalar:
        style = raw[0] if raw[0] in "\"'" else ""
        return self.checked(Scalar(self._unquoted(raw, start) if style else raw, start, start + len(raw), raw, style))

    def checked(self, node: Scalar) -> Scalar:
        self._values += 1
        if self._values > MAX_NODES:
            raise too_large(f"the plan has more than {MAX_NODES:,} nodes", node.start, node.end)
        check_scalar(node.end - node.start, node.start, node.end)
        return node

    def _block(self, header: re.Match[str], column: int) -> int:
        text, at = self._text, self.next_line(header.end())
        marks = header[2]
        chomping, digit = marks.strip("123456789"), marks.strip("+-")
        indent = column + int(digit) if digit else 0
        lines: list[str] = []
        end = at
        while at < len(text):
            stop = self.line_end(at)
            line = text[at:stop].removesuffix("\r")
            width = len(line) - len(line.lstrip(" "))
            says = not line.isspace() and bool(line)
            if says and not indent:
                indent = max(width, column + 1)
            if says and width < indent:
                break
            lines.append(line[indent:] if 0 < indent <= width else "")
            at = end = stop + 1
        broken = end <= len(text)
        end = min(end, len(text))
        raw = text[header.start() : end].rstrip(" \t\r\n") if lines else header[0]
        node = Scalar(
            block_text(Block(header[1], chomping), lines, broken),
            header.start(),
            header.start() + len(raw),
            raw,
            header[1],
        )
        self.emit("SCALAR", node.start, node.end, self.checked(node))
        return end - 1 if lines and broken else max(end, header.end()) if lines else header.end()

    # collections in brackets

    def collection(self, start: int) -> int:
        """``[…]`` or ``{…}``, over several lines if it is; gives the offset behind its end."""
        text, at, open_at = self._text, start, [start]
        self.emit(_BRACKETS[text[at]], at, at + 1)
        at += 1
        while open_at:
            begin, at = at, _FLOW_SPACE.match(text, at).end()  # type: ignore[union-attr]
            if text[at : at + 1] == "#" and at > begin:
                at = self.line_end(at)
                continue
            self._check_open(begin, at, open_at[-1])
            character = text[at]
            if character in _BRACKETS and not (text.startswith("{{", at) and FLOW_PLAIN.match(text, at)):
                self.emit(_BRACKETS[character], at, at + 1)
                at += 1
                if character in "[{":
                    open_at.append(at - 1)
                    if len(open_at) + len(self.indents) > MAX_DEPTH:
                        raise too_deep(at - 1)
                elif character != ",":
                    open_at.pop()
                continue
            at = self._flow_scalar(at, text[open_at[-1]] == "{" and self.out[-1].type in ("LBRACE", "_COMMA"))
        return at

    def _check_open(self, begin: int, at: int, bracket: int) -> None:
        text = self._text
        if at < len(text):
            line = text.rfind("\n", begin, at)
            if line < 0 or text[at] in "]}" or at - line - 1 > self.indents[-1]:
                return
        close = "]" if text[bracket] == "[" else "}"
        raise Fault(
            f"this `{text[bracket]}` is never closed", bracket, help=f"close it with `{close}`, or quote the value"
        )

    def _flow_scalar(self, at: int, is_name: bool) -> int:
        text = self._text
        if text[at] in "\"'":
            node = self.quoted(at)
        else:
            plain = FLOW_PLAIN.match(text, at)
            if plain is None:
                help = "quote the text around it"
                raise Fault(f"`{text[at]}` cannot stand here", at, help=help)
            node = self.name(plain[0], at) if is_name else self.plain(plain[0], at)
        self.emit("NAME" if is_name else "SCALAR", at, node.end, node)
        colon = _COLON.match(text, node.end) if is_name else None
        return colon.end() if colon else node.end
