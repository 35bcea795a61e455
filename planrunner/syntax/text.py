"""The text notation to the node tree: ``grammar/plan.lark`` through Lark, with recovery at the next line.

The parser is built at first use, in about 15 ms; a cache on disk would save a few of these and have to be unpickled,
that is trusted, so there is none.
"""

from __future__ import annotations

from _thread import allocate_lock
from functools import cache
from typing import Any, NamedTuple

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer as LarkLexer

from planrunner.diagnostics import Diagnostic
from planrunner.resources import read_data
from planrunner.source import Source, Span
from planrunner.syntax.findings import empty_plan, find_unreadable
from planrunner.syntax.limits import CollectorPaused, Refused, check_length
from planrunner.syntax.parsed import Parsed
from planrunner.syntax.text_build import Builder
from planrunner.syntax.text_errors import unexpected
from planrunner.syntax.text_lexer import Lexer
from planrunner.syntax.text_values import Lexeme
from planrunner.syntax.tree import Node

MAX_FINDINGS = 100


class _Grammar(NamedTuple):
    """Lark's tables with the builder that they call; one parse at a time may use them."""

    lark: Any
    builder: Builder
    lock: Any
    error: type[Exception]


def parse_text(source: Source) -> Parsed:
    """Read the text notation. Each line that does not parse gives one finding, and then the tree is None."""
    try:
        check_length(source.text)
        unreadable = find_unreadable(source.text)
        if unreadable is not None:
            raise Refused(unreadable)
        with CollectorPaused():
            return _parse(source.text)
    except Refused as refusal:
        return Parsed(None, (refusal.finding,))


def _parse(text: str) -> Parsed:
    lexemes = Lexer(text).lexemes()
    if not lexemes:
        raise Refused(empty_plan())
    grammar = _grammar()
    with grammar.lock:
        findings: list[Diagnostic] = []
        grammar.builder.findings = findings
        tree = _Reading(text, lexemes, grammar).run()
    broken = tree is None or any(finding.code != "PLAN002" for finding in findings)
    return Parsed(None if broken else tree, tuple(findings))


class _NoLexer(LarkLexer):
    """Stands where Lark wants a lexer: lexemes are fed to its parser one by one."""

    def __init__(self, _: Any) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        return iter(())


@cache
def _grammar() -> _Grammar:
    builder = Builder()
    lark = Lark(read_data("grammar", "plan.lark"), parser="lalr", lexer=_NoLexer, transformer=builder)
    return _Grammar(lark, builder, allocate_lock(), UnexpectedToken)


_READ = Lexeme("_READ", 0, 0)


class _Reading:
    """One pass over the lexemes. ``marks`` holds, for each open block, how high the parser's stacks were when its
    current statement began: cutting them back to that height forgets the statement and nothing else."""

    def __init__(self, text: str, lexemes: list[Lexeme], grammar: _Grammar) -> None:
        self._text = text
        self._lexemes = lexemes
        self._grammar = grammar
        self._state = grammar.lark.parse_interactive().parser_state
        self._marks = [1]

    def run(self) -> Node | None:
        at, lexemes, error = 0, self._lexemes, self._grammar.error
        feed, stack, marks = self._state.feed_token, self._state.state_stack, self._marks
        while at < len(lexemes):
            lexeme = lexemes[at]
            kind = lexeme.type
            try:
                feed(lexeme)
            except error as problem:
                at = self._recover(at, problem)
                if len(self._grammar.builder.findings) > MAX_FINDINGS:
                    return None
                continue
            lexemes[at] = _READ  # what was read is needed no more: the tree grows in the room it leaves
            at += 1
            if lexeme.first:
                marks[-1] = len(stack) - 1
            elif kind == "_INDENT":
                marks.append(len(stack))
            elif kind == "_DEDENT":
                marks.pop()
        end = len(self._text)
        try:
            tree: Node = self._state.feed_token(Lexeme("$END", end, end), True)
        except error as problem:
            self._report(Lexeme("$END", end, end), problem)
            return None
        return tree

    def _recover(self, at: int, problem: Any) -> int:
        """Report the lexeme that does not fit and leave out its statement; gives where to go on."""
        lexemes = self._lexemes
        lexeme = lexemes[at]
        following = lexemes[at + 1] if at + 1 < len(lexemes) else lexeme
        self._report(following if following.type == "FAULT" and lexeme.type == "_INDENT" else lexeme, problem)
        if lexeme.type == "_INDENT":
            return self._behind_block(at)
        if not lexeme.first:
            height = self._marks[-1]
            del self._state.state_stack[height:], self._state.value_stack[height - 1 :]
        while at < len(lexemes) and lexemes[at].type != "_NL":
            at = self._behind_block(at) - 1 if lexemes[at].type == "_INDENT" else at + 1
            if lexemes[at].type == "_DEDENT":
                return at + 1
        at += 1
        if at < len(lexemes) and lexemes[at].type == "_INDENT":
            return self._behind_block(at)
        return at

    def _behind_block(self, at: int) -> int:
        """The index behind the block that begins at ``at``."""
        depth = 0
        for index in range(at, len(self._lexemes)):
            kind = self._lexemes[index].type
            depth += (kind == "_INDENT") - (kind == "_DEDENT")
            if not depth:
                return index + 1
        return len(self._lexemes)

    def _report(self, lexeme: Lexeme, problem: Any) -> None:
        finding = lexeme.finding or unexpected(lexeme, frozenset(problem.expected), self._text)
        findings: list[Diagnostic] = self._grammar.builder.findings
        findings.append(
            finding
            if finding.span.end > finding.span.start
            else finding._replace(span=Span(finding.span.start, finding.span.start + 1))
        )
