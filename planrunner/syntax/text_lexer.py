"""The lexemes of the text notation, line by line: what begins a line, its indentation, and the values in it.

Reading never stops at a fault: the lexeme ``FAULT`` carries the finding, and the reader goes on with the next line.
"""

from __future__ import annotations

import re

from planrunner.diagnostics import Diagnostic, Edit, Fix
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


class _Fault(Exception):
    """The rest of the line cannot be read."""

    def __init__(self, message: str, start: int, end: int = 0, help: str = "", fix: Fix | None = None) -> None:
        super().__init__(message)
        self.finding = Diagnostic("PLAN001", message, Span(start, end or start + 1), help=help, fix=fix)


_END = r"(?=[ \t]*(?:[ \t]\#[^\n]*)?\r?(?:\n|\Z))"
_WORD_END = r"(?=[ \t\r\n]|\Z)"
_SPACE = re.compile(r"[ \t]*")
_TO_END = re.compile(r"[ \t]*(?:(?<=[ \t])\#[^\n]*)?(?=\r?(?:\n|\Z))")
_BLANK = re.compile(r"[ \t]*(?:\#[^\n]*)?\r?(?:\n|\Z)")
DASH = re.compile(rf"-{_WORD_END}[ \t]*")
DOUBLE = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"')
SINGLE = re.compile(r"'(?:[^'\r\n]|'')*'")
KEY = re.compile(
    rf"""({DOUBLE.pattern}|{SINGLE.pattern}|[^ \t\r\n:\#"'\[\]{{}},][^ \t\r\n:\#]*(?::[^ \t\r\n:\#]+)*)[ \t]*:{_WORD_END}"""
)
HEAD = re.compile(rf"(plan|task){_WORD_END}")
FINALLY = re.compile(rf"finally{_END}")
ROUTE = re.compile(r"on[ \t]+([A-Za-z_][A-Za-z0-9_-]*)[ \t]*->[ \t]*")
_ROUTE_TAIL = re.compile(rf"([^ \t\r\n]+)[ \t]*(?:(recovers){_WORD_END}[ \t]*)?(?:(when){_WORD_END}[ \t]*)?")
_ARROWLESS = re.compile(r"on[ \t]+[A-Za-z_][A-Za-z0-9_-]*")
_SPACED_KEY = re.compile(r"([A-Za-z_][^:\#\r\n]*[ \t][^:\#\r\n]*):[ \t]")
PLAIN = re.compile(r"[^ \t\r\n#][^ \t\r\n]*(?:[ \t]+[^ \t\r\n#][^ \t\r\n]*)*")
BLOCK = re.compile(rf"([|>])([+-]?[1-9]?|[1-9][+-]){_END}")
PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*):(?=[^ \t\r\n])")
BARE = re.compile(r"""(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n"'\[{])(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n])*""")
_FLOW_SPACE = re.compile(r"(?:[ \t]*(?:(?<=[ \t\n])\#[^\n]*)?\r?\n)*[ \t]*")
FLOW_PLAIN = re.compile(
    r"""(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n,\[\]{}:\#"']|:(?![ \t\r\n,\[\]{}]|\Z))"""
    r"""(?:[ \t]*(?:\{\{[^{}\r\n]*\}\}|[^ \t\r\n,\[\]{}:\#]|:(?![ \t\r\n,\[\]{}]|\Z)|(?<![ \t])\#))*"""
)
_COLON = re.compile(r"[ \t]*:")
_BRACKETS = {"[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "_COMMA"}


class Lexer:
    """Walks once through a text; ``lexemes`` is the way in."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out: list[Lexeme] = []
        self._indents = [0]
        self._values = 0
        self._words: dict[str, Plain] = {}

    def lexemes(self) -> list[Lexeme]:
        """All lexemes of the text. Raises Refused where a limit is passed."""
        text = self._text
        at = 1 if text[:1] == "\ufeff" else 0
        while at < len(text):
            blank = _BLANK.match(text, at)
            if blank:
                at = blank.end()
                continue
            start = at + len(text[at : self._line_end(at)]) - len(text[at : self._line_end(at)].lstrip(" "))
            at = self._next_line(self._line(start, start - (text.rfind("\n", 0, at) + 1 or at)))
        self._unindent(0, len(text))
        return self._out

    def _emit(self, type: str, start: int, end: int, node: Scalar | None = None, first: bool = False) -> None:
        self._out.append(Lexeme(type, start, end, node, first))

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _next_line(self, at: int) -> int:
        return self._line_end(at) + 1

    # lines

    def _line(self, start: int, column: int) -> int:
        """Read the line that says something from ``start`` on; gives an offset in its last line."""
        try:
            if self._text[start] == "\t":
                raise _Fault("a tab stands in the indentation", start, help="indent with spaces")
            self._indent(start, column)
            end = self._statement(start, column)
        except _Fault as fault:
            at_start = not self._out or self._out[-1].type in ("_NL", "_INDENT", "_DEDENT")
            lexeme = Lexeme("FAULT", fault.finding.span.start, fault.finding.span.end, first=at_start)
            lexeme.finding = fault.finding
            self._out.append(lexeme)
            self._emit("_NL", start, start)
            return (
                max(start, fault.finding.span.start)
                if "\n" not in self._text[start : fault.finding.span.start]
                else start
            )
        self._emit("_NL", end, end)
        return end

    def _indent(self, start: int, column: int) -> None:
        if column > self._indents[-1]:
            self._push(start, column)
            return
        self._unindent(column, start)
        if column != self._indents[-1]:
            self._push(start, column)
            raise _Fault("this line is not in line with anything above", start, help="indent it as its neighbours")

    def _push(self, start: int, column: int) -> None:
        self._indents.append(column)
        if len(self._indents) > MAX_DEPTH:
            raise too_deep(start)
        self._emit("_INDENT", start, start)

    def _unindent(self, column: int, start: int) -> None:
        while self._indents[-1] > column:
            self._indents.pop()
            self._emit("_DEDENT", start, start)

    def _statement(self, start: int, column: int) -> int:
        """One statement, and the items and the entry inside them that may stand on the same line."""
        text = self._text
        while dash := DASH.match(text, start):
            self._emit("DASH", start, start + 1, first=True)
            inner = dash.end()
            if _TO_END.match(text, inner) or text[inner : inner + 1] == "#":
                return inner
            if not (DASH.match(text, inner) or KEY.match(text, inner) or FINALLY.match(text, inner)):
                return self._value(inner, column)
            column += inner - start
            start = inner
            self._push(start, column)
        head = HEAD.match(text, start)
        if head and not KEY.match(text, start):
            self._emit(head[1].upper(), start, head.end(), first=True)
            return self._words_of_head(head.end())
        if route := ROUTE.match(text, start):
            return self._route(route)
        return self._entry(start, column)

    def _entry(self, start: int, column: int) -> int:
        text = self._text
        if lone := FINALLY.match(text, start):
            self._emit("KEY", start, lone.end(), Scalar(lone[0], start, lone.end(), lone[0]), first=True)
            return lone.end()
        key = KEY.match(text, start)
        if key is None:
            raise self._no_statement(start)
        self._emit("KEY", start, key.end(1), self._name(key[1], start), first=True)
        at = key.end()
        at += len(_SPACE.match(text, at)[0])  # type: ignore[index]
        if _TO_END.match(text, at) or (text[at : at + 1] == "#" and at > key.end()):
            return at
        return self._value(at, column)

    def _no_statement(self, start: int) -> _Fault:
        line = self._text[start : self._line_end(start)].rstrip("\r")
        if line[0] in "\"'" and not DOUBLE.match(line) and not SINGLE.match(line):
            return _Fault(f"this quote ({line[0]}) is never closed", start, help="close it on the same line")
        if _ARROWLESS.fullmatch(line.split(" #")[0].rstrip()) or (
            line.startswith("on ") and "->" not in line and ":" not in line
        ):
            return _Fault(
                "an `on` line needs `->` and a task", start, start + len(line), help="write `on failure -> task-id`"
            )
        spaced = _SPACED_KEY.match(line + " ")
        if spaced:
            help = f'write "{spaced[1]}": …'
            return _Fault("a key with spaces in it must be quoted", start, start + spaced.end(1), help=help)
        glued = re.match(r"([A-Za-z_][\w.-]*):(?=[^\s:/])", line)
        if glued:
            at = start + glued.end()
            fix = Fix("put a space after the colon", (Edit(Span(at, at), " "),))
            return _Fault(f"a space is missing after `{glued[0]}`", at - 1, help=f"write `{glued[0]} …`", fix=fix)
        help = "a line is `key: value`, `- item`, `task id`, or `on failure -> id`"
        return _Fault("this line is no statement of a plan", start, start + len(line.rstrip()), help=help)

    # the words behind `task` and `plan`, and behind `on … ->`

    def _words_of_head(self, at: int) -> int:
        text = self._text
        while True:
            begin = at
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if _TO_END.match(text, at) or (text[at] == "#" and at > begin):
                return at
            if text[at] in "\"'":
                node = self._quoted(at)
                self._emit("TITLE", at, node.end, node)
            elif pair := PAIR.match(text, at):
                self._emit("PAIR", at, pair.end(1), Scalar(pair[1], at, pair.end(1), pair[1]))
                at = self._pair_value(pair.end())
                continue
            elif bare := BARE.match(text, at):
                node = self._word(bare, at)
                self._emit("WORD", at, node.end, node)
            else:
                raise _Fault(f"`{text[at]}` cannot stand here", at, help='write `task id "Title" key:value …`')
            at = node.end

    def _word(self, bare: re.Match[str], at: int) -> Scalar:
        if bare[0].endswith(":"):
            help = "write the value right behind the colon, or the key on a line of its own below"
            raise _Fault(f"`{bare[0]}` has no value", at, bare.end(), help=help)
        return self._checked(Scalar(bare[0], at, bare.end(), bare[0]))

    def _pair_value(self, at: int) -> int:
        text = self._text
        if text[at] in "\"'":
            node = self._quoted(at)
        elif text[at] in "[{" and text[at : at + 2] != "{{":
            return self._collection(at)
        else:
            bare = BARE.match(text, at)
            if bare is None:
                raise _Fault("this `{{` is never closed", at, at + 2, help="close it with `}}`, or quote the value")
            node = self._plain(bare[0], at)
        self._emit("SCALAR", at, node.end, node)
        return node.end

    def _route(self, route: re.Match[str]) -> int:
        start, at, text = route.start(), route.end(), self._text
        self._emit("ROUTE", start, at, Scalar(route[1], route.start(1), route.end(1), route[1]), first=True)
        tail = _ROUTE_TAIL.match(text, at)
        if tail is None:
            raise _Fault("a task is missing behind `->`", start, at, help="write `on failure -> task-id`")
        self._emit(
            "WORD", tail.start(1), tail.end(1), self._checked(Scalar(tail[1], tail.start(1), tail.end(1), tail[1]))
        )
        if tail[2]:
            self._emit("RECOVERS", tail.start(2), tail.end(2), Scalar(True, tail.start(2), tail.end(2), "recovers"))
        if tail[3]:
            self._emit("_WHEN", tail.start(3), tail.end(3))
            if _TO_END.match(text, tail.end()):
                raise _Fault("a condition is missing behind `when`", tail.start(3), tail.end(3))
            return self._value(tail.end(), self._indents[-1])
        rest = _TO_END.match(text, tail.end(3) if tail[3] else tail.end(2) if tail[2] else tail.end(1))
        if rest is None:
            help = "behind the task only `recovers` and `when …` may stand"
            raise _Fault("this line goes on after its target", tail.end(), self._line_end(at), help=help)
        return tail.end(1)

    # values

    def _value(self, at: int, column: int) -> int:
        """A value that takes the rest of its line, and the lines of a block text or of brackets; gives its end."""
        text, first = self._text, self._text[at]
        if first in "|>" and (block := BLOCK.match(text, at)):
            return self._block(block, column)
        if first in "\"'":
            node = self._quoted(at)
            self._nothing_behind(node.end, "its closing quote")
        elif first in "[{" and text[at : at + 2] != "{{":
            end = self._collection(at)
            self._nothing_behind(end, f"`{text[end - 1]}`")
            return end
        else:
            plain = PLAIN.match(text, at)
            if plain is None:
                raise _Fault("a value is missing here", at)
            node = self._plain(plain[0], at)
        self._emit("SCALAR", at, node.end, node)
        return node.end

    def _nothing_behind(self, at: int, what: str) -> None:
        if not _TO_END.match(self._text, at):
            at = _SPACE.match(self._text, at).end()  # type: ignore[union-attr]
            raise _Fault(
                f"the value goes on after {what}",
                at,
                help="quote the whole value, with the other kind of quotes if need be",
            )

    def _plain(self, raw: str, start: int) -> Scalar:
        if raw[0] not in FIRST:
            return self._checked(Scalar(raw, start, start + len(raw), raw))
        if raw not in self._words:
            try:
                self._words[raw] = resolve(raw)
            except Unusable as problem:
                fault = _Fault(str(problem), start, start + len(raw), help="quote it if text is meant")
                fault.finding = fault.finding._replace(code="PLAN013")
                raise fault from None
        return self._checked(Scalar(self._words[raw], start, start + len(raw), raw))

    def _quoted(self, start: int) -> Scalar:
        quote = self._text[start]
        found = (DOUBLE if quote == '"' else SINGLE).match(self._text, start)
        if found is None:
            raise _Fault(f"this quote ({quote}) is never closed", start, help="close it on the same line")
        return self._checked(Scalar(self._unquoted(found[0], start), start, found.end(), found[0], quote))

    def _unquoted(self, raw: str, start: int) -> str:
        try:
            return unquote(raw)
        except BadEscape as bad:
            at = start + bad.at
            help = "write `\\\\` for a backslash, or use single quotes"
            raise _Fault(
                f"`{bad.shown}` is no escape that names a character", at, at + len(bad.shown), help=help
            ) from None

    def _name(self, raw: str, start: int) -> Scalar:
        style = raw[0] if raw[0] in "\"'" else ""
        return self._checked(Scalar(self._unquoted(raw, start) if style else raw, start, start + len(raw), raw, style))

    def _checked(self, node: Scalar) -> Scalar:
        self._values += 1
        if self._values > MAX_NODES:
            raise too_large(f"the plan has more than {MAX_NODES:,} nodes", node.start, node.end)
        check_scalar(node.end - node.start, node.start, node.end)
        return node

    def _block(self, header: re.Match[str], column: int) -> int:
        text, at = self._text, self._next_line(header.end())
        marks = header[2]
        chomping, digit = marks.strip("123456789"), marks.strip("+-")
        indent = column + int(digit) if digit else 0
        lines: list[str] = []
        end = at
        while at < len(text):
            stop = self._line_end(at)
            line = text[at:stop].removesuffix("\r")
            width = len(line) - len(line.lstrip(" "))
            if width < len(line) and not indent:
                indent = max(width, column + 1)
            if width < len(line) and width < indent:
                break
            lines.append(line[indent:] if indent else "")
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
        self._emit("SCALAR", node.start, node.end, self._checked(node))
        return end - 1 if lines and broken else max(end, header.end()) if lines else header.end()

    # collections in brackets

    def _collection(self, start: int) -> int:
        """``[…]`` or ``{…}``, over several lines if it is; gives the offset behind its end."""
        text, at, open_at = self._text, start, [start]
        self._emit(_BRACKETS[text[at]], at, at + 1)
        at += 1
        while open_at:
            begin, at = at, _FLOW_SPACE.match(text, at).end()  # type: ignore[union-attr]
            if text[at : at + 1] == "#" and at > begin:
                at = self._line_end(at)
                continue
            self._check_open(begin, at, open_at[-1])
            character = text[at]
            if character in _BRACKETS and not (text.startswith("{{", at) and FLOW_PLAIN.match(text, at)):
                self._emit(_BRACKETS[character], at, at + 1)
                at += 1
                if character in "[{":
                    open_at.append(at - 1)
                    if len(open_at) + len(self._indents) > MAX_DEPTH:
                        raise too_deep(at - 1)
                elif character != ",":
                    open_at.pop()
                continue
            at = self._flow_scalar(at, text[open_at[-1]] == "{" and self._out[-1].type in ("LBRACE", "_COMMA"))
        return at

    def _check_open(self, begin: int, at: int, bracket: int) -> None:
        text = self._text
        if at < len(text):
            line = text.rfind("\n", begin, at)
            if line < 0 or text[at] in "]}" or at - line - 1 > self._indents[-1]:
                return
        close = "]" if text[bracket] == "[" else "}"
        raise _Fault(
            f"this `{text[bracket]}` is never closed", bracket, help=f"close it with `{close}`, or quote the value"
        )

    def _flow_scalar(self, at: int, is_name: bool) -> int:
        text = self._text
        if text[at] in "\"'":
            node = self._quoted(at)
        else:
            plain = FLOW_PLAIN.match(text, at)
            if plain is None:
                help = "quote the text around it"
                raise _Fault(f"`{text[at]}` cannot stand here", at, help=help)
            node = self._name(plain[0], at) if is_name else self._plain(plain[0], at)
        self._emit("NAME" if is_name else "SCALAR", at, node.end, node)
        colon = _COLON.match(text, node.end) if is_name else None
        return colon.end() if colon else node.end
