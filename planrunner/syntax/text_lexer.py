"""The lexemes of the text notation, line by line: what begins a line, its indentation, and the values in it.

Reading never stops at a fault: the lexeme ``FAULT`` carries the finding, and the reader continues with the next line.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.source import Span
from planrunner.syntax.limits import MAX_DEPTH, MAX_LINE, MAX_NODES, MAX_WORDS, check_scalar, too_deep, too_large
from planrunner.syntax.scalars import FIRST, BadEscape, Block, Unusable, block_text, resolve, unquote
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
        match = (DOUBLE if quote == '"' else SINGLE).match(self._text, start)
        if match is None:
            raise Fault(f"this quote ({quote}) is never closed", start, help="close it on the same line")
        return self.checked(Scalar(self._unquoted(match[0], start), start, match.end(), match[0], quote))

    def _unquoted(self, raw: str, start: int) -> str:
        try:
            return unquote(raw)
        except BadEscape as bad:
            at = start + bad.at
            help = "write `\\\\` for a backslash, or use single quotes"
            raise Fault(
                f"`{bad.shown}` is not an escape that names a character", at, at + len(bad.shown), help=help
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


_BLANK = re.compile(r"[ \t]*(?:\#[^\n]*)?\r?(?:\n|\Z)")
DASH = re.compile(rf"-{WORD_END}[ \t]*")
_PLAIN_KEY = r"""[^ \t\r\n:\#"'\[\]{},][^ \t\r\n:\#]*(?::[^ \t\r\n:\#]+)*"""
KEY = re.compile(rf"({DOUBLE.pattern}|{SINGLE.pattern}|{_PLAIN_KEY})[ \t]*:{WORD_END}")
HEAD = re.compile(rf"(plan|task){WORD_END}")
FINALLY = re.compile(rf"finally{END}")
ROUTE = re.compile(r"on[ \t]+([A-Za-z_][A-Za-z0-9_-]*)[ \t]*->[ \t]*")
_ROUTE_TAIL = re.compile(rf"([^ \t\r\n]+)[ \t]*(?:(recovers){WORD_END}[ \t]*)?(?:(when){WORD_END}[ \t]*)?")
_ARROWLESS = re.compile(r"on[ \t]+[A-Za-z_][A-Za-z0-9_-]*")
_SPACED_KEY = re.compile(r"([A-Za-z_][^:\#\r\n]*[ \t][^:\#\r\n]*):[ \t]")
PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*):(?=[^ \t\r\n])")


class Lexer(ValueLexer):
    """Walks once through a text; ``lexemes`` is the way in."""

    def lexemes(self) -> list[Lexeme]:
        """All lexemes of the text. Raises Refused where a limit is passed."""
        text = self._text
        at = 1 if text[:1] == "\ufeff" else 0
        while at < len(text):
            blank = _BLANK.match(text, at)
            if blank:
                at = blank.end()
                continue
            line = text[at : self.line_end(at)]
            if len(line) > MAX_LINE:
                raise too_large(f"a line is longer than {MAX_LINE:,} characters", at, at + 1)
            if len(self.out) > MAX_WORDS:
                raise too_large(f"the plan has more than {MAX_WORDS:,} words and signs", at, at + 1)
            start = at + len(line) - len(line.lstrip(" "))
            at = self.next_line(self._line(start, start - (text.rfind("\n", 0, at) + 1 or at)))
        self._unindent(0, len(text))
        return self.out

    # lines

    def _line(self, start: int, column: int) -> int:
        """Read the line that says something from ``start`` on; gives an offset in its last line."""
        try:
            if self._text[start] == "\t":
                raise Fault("a tab stands in the indentation", start, help="indent with spaces")
            self._indent(start, column)
            end = self._statement(start, column)
        except Fault as fault:
            at_start = not self.out or self.out[-1].type in ("_NL", "_INDENT", "_DEDENT")
            lexeme = Lexeme("FAULT", fault.finding.span.start, fault.finding.span.end, first=at_start)
            lexeme.finding = fault.finding
            self.out.append(lexeme)
            self.emit("_NL", start, start)
            return (
                max(start, fault.finding.span.start)
                if "\n" not in self._text[start : fault.finding.span.start]
                else start
            )
        self.emit("_NL", end, end)
        return end

    def _indent(self, start: int, column: int) -> None:
        if column > self.indents[-1]:
            self._push(start, column)
            return
        self._unindent(column, start)
        if column != self.indents[-1]:
            self._push(start, column)
            raise Fault("this line is not in line with anything above", start, help="indent it as its neighbours")

    def _push(self, start: int, column: int) -> None:
        self.indents.append(column)
        if len(self.indents) > MAX_DEPTH:
            raise too_deep(start)
        self.emit("_INDENT", start, start)

    def _unindent(self, column: int, start: int) -> None:
        while self.indents[-1] > column:
            self.indents.pop()
            self.emit("_DEDENT", start, start)

    def _statement(self, start: int, column: int) -> int:
        """One statement, and the items and the entry inside them that may stand on the same line."""
        text = self._text
        while dash := DASH.match(text, start):
            self.emit("DASH", start, start + 1, first=True)
            inner = dash.end()
            if TO_END.match(text, inner) or text[inner : inner + 1] == "#":
                return inner
            if not (DASH.match(text, inner) or KEY.match(text, inner) or FINALLY.match(text, inner)):
                return self.value(inner, column)
            column += inner - start
            start = inner
            self._push(start, column)
        head = HEAD.match(text, start)
        if head and not KEY.match(text, start):
            self.emit(head[1].upper(), start, head.end(), first=True)
            return self._words_of_head(head.end())
        if route := ROUTE.match(text, start):
            return self._route(route)
        return self._entry(start, column)

    def _entry(self, start: int, column: int) -> int:
        text = self._text
        if lone := FINALLY.match(text, start):
            self.emit("KEY", start, lone.end(), Scalar(lone[0], start, lone.end(), lone[0]), first=True)
            return lone.end()
        key = KEY.match(text, start)
        if key is None:
            raise self._no_statement(start)
        self.emit("KEY", start, key.end(1), self.name(key[1], start), first=True)
        at = key.end()
        at += len(SPACE.match(text, at)[0])  # type: ignore[index]
        if TO_END.match(text, at) or (text[at : at + 1] == "#" and at > key.end()):
            return at
        return self.value(at, column)

    def _no_statement(self, start: int) -> Fault:
        line = self._text[start : self.line_end(start)].rstrip("\r")
        if line.startswith(('"', "'")) and not DOUBLE.match(line) and not SINGLE.match(line):
            return Fault(f"this quote ({line[0]}) is never closed", start, help="close it on the same line")
        if _ARROWLESS.fullmatch(line.split(" #")[0].rstrip()) or (
            line.startswith("on ") and "->" not in line and ":" not in line
        ):
            return Fault(
                "an `on` line needs `->` and a task", start, start + len(line), help="write `on failure -> task-id`"
            )
        spaced = _SPACED_KEY.match(line + " ")
        if spaced:
            help = f'write "{spaced[1]}": …'
            return Fault("a key with spaces in it must be quoted", start, start + spaced.end(1), help=help)
        glued = re.match(r"([A-Za-z_][\w.-]*):(?=[^\s:/])", line)
        if glued:
            at = start + glued.end()
            fix = Fix("put a space after the colon", (Edit(Span(at, at), " "),))
            return Fault(f"a space is missing after `{glued[0]}`", at - 1, help=f"write `{glued[0]} …`", fix=fix)
        return no_statement(line, start)

    # the words behind `task` and `plan`, and behind `on … ->`

    def _words_of_head(self, at: int) -> int:
        text = self._text
        while True:
            begin = at
            at = SPACE.match(text, at).end()  # type: ignore[union-attr]
            if TO_END.match(text, at) or (text[at] == "#" and at > begin):
                return at
            if text[at] in "\"'":
                node = self.quoted(at)
                self.emit("TITLE", at, node.end, node)
            elif pair := PAIR.match(text, at):
                self.emit("PAIR", at, pair.end(1), Scalar(pair[1], at, pair.end(1), pair[1]))
                at = self._pair_value(pair.end())
                continue
            elif bare := BARE.match(text, at):
                node = self._word(bare, at)
                self.emit("WORD", at, node.end, node)
            else:
                raise Fault(f"`{text[at]}` cannot stand here", at, help='write `task id "Title" key:value …`')
            at = node.end

    def _word(self, bare: re.Match[str], at: int) -> Scalar:
        if bare[0].endswith(":"):
            help = "write the value right behind the colon, or the key on a line of its own below"
            raise Fault(f"`{bare[0]}` has no value", at, bare.end(), help=help)
        return self.checked(Scalar(bare[0], at, bare.end(), bare[0]))

    def _pair_value(self, at: int) -> int:
        text = self._text
        if text[at] in "\"'":
            node = self.quoted(at)
        elif text[at] in "[{" and text[at : at + 2] != "{{":
            return self.collection(at)
        else:
            bare = BARE.match(text, at)
            if bare is None:
                raise Fault("this `{{` is never closed", at, at + 2, help="close it with `}}`, or quote the value")
            node = self.plain(bare[0], at)
        self.emit("SCALAR", at, node.end, node)
        return node.end

    def _route(self, route: re.Match[str]) -> int:
        start, at, text = route.start(), route.end(), self._text
        self.emit("ROUTE", start, at, Scalar(route[1], route.start(1), route.end(1), route[1]), first=True)
        tail = _ROUTE_TAIL.match(text, at)
        if tail is None:
            raise Fault("a task is missing behind `->`", start, at, help="write `on failure -> task-id`")
        self.emit(
            "WORD", tail.start(1), tail.end(1), self.checked(Scalar(tail[1], tail.start(1), tail.end(1), tail[1]))
        )
        if tail[2]:
            self.emit("RECOVERS", tail.start(2), tail.end(2), Scalar(True, tail.start(2), tail.end(2), "recovers"))
        if tail[3]:
            self.emit("_WHEN", tail.start(3), tail.end(3))
            if TO_END.match(text, tail.end()):
                raise Fault("a condition is missing behind `when`", tail.start(3), tail.end(3))
            return self.value(tail.end(), self.indents[-1])
        rest = TO_END.match(text, tail.end(3) if tail[3] else tail.end(2) if tail[2] else tail.end(1))
        if rest is None:
            help = "behind the task only `recovers` and `when …` may stand"
            raise Fault("this line goes on after its target", tail.end(), self.line_end(at), help=help)
        return tail.end(1)


@cache
def _keys() -> frozenset[str]:
    """The keys that people write without their colon; not those that are meant as a first word."""
    schema = read_json(read_data("schemas", "plan.schema.json"))
    return frozenset([*schema["properties"], *schema["definitions"]["task"]["properties"]]) - {*_FIRST_WORDS, "tasks"}


_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(?=[ \t\[{\"']|\Z)")
_ROUTE = re.compile(r"[A-Za-z]{1,3}[ \t]+[A-Za-z_][A-Za-z0-9_-]*[ \t]*->")
_ARROW = re.compile(r"on[ \t]+[A-Za-z_][A-Za-z0-9_-]*[ \t]*(-{2,}>|[→⇒➔]|--)(?=[ \t]*[A-Za-z_])")
_FIRST_WORDS = ("task", "plan", "finally")


def no_statement(line: str, start: int) -> Fault:
    """The fault for ``line``, whose text begins at ``start``: a missing colon, a misspelt word, or anything else."""
    end = start + len(line.rstrip())
    word = _WORD.match(line)
    if word and word[1] in _keys():
        at = start + word.end()
        spaced = line[word.end() : word.end() + 1] in " \t"
        fix = Fix("put a colon there", (Edit(Span(at, at), ":" if spaced else ": "),))
        help = f"write `{word[1]}: …`"
        return Fault(f"a colon is missing after `{word[1]}`", start, at, help=help, fix=fix)
    meant = _meant(line, word[1]) if word else ""
    if word and meant:
        at = start + word.end()
        fix = Fix(f"write `{meant}`", (Edit(Span(start, at), meant),), safe=False)
        return Fault(f"`{word[1]}` begins no line of a plan, did you mean `{meant}`?", start, at, fix=fix)
    help = "a line is `key: value`, `- item`, `task id`, or `on failure -> id`"
    if arrow := _ARROW.match(line):
        at = start + arrow.start(1)
        fix = Fix("write `->`", (Edit(Span(at, at + len(arrow[1])), "->"),))
        return Fault(f"`{arrow[1]}` is not an arrow, did you mean `->`?", at, at + len(arrow[1]), fix=fix)
    return Fault("this line is not a statement of a plan", start, end, help=help)


def _meant(line: str, word: str) -> str:
    """The word of the notation that a misspelt one stands for; an arrow behind a short word tells of an edge."""
    if _ROUTE.match(line):
        return "on"
    return next((close for close in get_close_matches(word, _FIRST_WORDS, n=1, cutoff=0.75) if close != word), "")
