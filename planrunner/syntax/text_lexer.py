"""The lexemes of the text notation, line by line: what begins a line, its indentation, and the values in it.

Reading never stops at a fault: the lexeme ``FAULT`` carries the finding, and the reader goes on with the next line.
"""

from __future__ import annotations

import re

from planrunner.diagnostics import Edit, Fix
from planrunner.source import Span
from planrunner.syntax.limits import MAX_DEPTH, MAX_LINE, MAX_WORDS, too_deep, too_large
from planrunner.syntax.text_statements import no_statement
from planrunner.syntax.text_values import BARE, DOUBLE, END, SINGLE, SPACE, TO_END, WORD_END, Fault, Lexeme, ValueLexer
from planrunner.syntax.tree import Scalar

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
