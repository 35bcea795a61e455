"""Reads texts by a grammar of ``grammar/*.lark``: by its tables, ``NAME.json``, so that a start builds no parser.

The terminals that may follow are the only ones that are tried, in the order of their priority. Each rule that was read
whole calls the method of its name at a builder, with what its symbols became.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from planrunner.fileio import read_data
from planrunner.later import Later
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.syntax.tables import text_of
else:
    text_of = Later("planrunner.syntax.tables:text_of")

END = "$END"


class Token(str):
    """The text of a terminal, its name, and where it stands."""

    __slots__ = ("end", "start", "type")

    type: str
    start: int
    end: int


class Unexpected(Exception):
    """What stands at ``at`` fits nowhere, or the text ends too early; ``expected`` are the terminals that would fit."""

    def __init__(self, expected: frozenset[str], at: int = 0, ended: bool = False) -> None:
        super().__init__(expected, at)
        self.expected = expected
        self.at = at
        self.ended = ended


class Rule(Struct, array_like=True):
    """``children`` are the numbers of the symbols that are handed on, ``~number`` where the children of one take its
    place, and None for an optional one that is left out; None for all of them. ``single``: an only child stands for
    the whole."""

    name: str
    origin: str
    length: int
    single: bool
    children: list[int | None] | None


class Table(Struct):
    """``of`` is the digest of the grammar. ``rows`` say what to do on each symbol: go to a state, or reduce by rule
    ``~number``; ``states`` are the numbers of their rows, the first one that of the beginning; with ``end`` a text is
    complete."""

    of: str
    rules: list[Rule]
    rows: list[dict[str, int]]
    states: list[int]
    end: int
    terminals: list[tuple[str, str]]
    ignored: list[str]


class Grammar:
    """The tables of a grammar; the patterns of a row are compiled when a text first comes to it."""

    __slots__ = ("_scanners", "_table", "end", "ignored", "rows", "rules")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._scanners: dict[int, re.Pattern[str]] = {}
        self.rules = table.rules
        self.rows = [table.rows[number] for number in table.states]
        self.end = table.end
        self.ignored = frozenset(table.ignored)

    def scanner(self, state: int) -> re.Pattern[str]:
        """The pattern of the terminals that may follow in a state."""
        number = self._table.states[state]
        found = self._scanners.get(number)
        if found is None:
            names = self._table.rows[number].keys() | self.ignored
            found = re.compile("|".join(f"(?P<{name}>{text})" for name, text in self._table.terminals if name in names))
            self._scanners[number] = found
        return found


def digest_of(grammar: str) -> str:
    """What tables know their grammar by."""
    return sha256(grammar.encode()).hexdigest()[:16]


@cache
def grammar(name: str) -> Grammar:
    """The grammar ``NAME.lark``, whose tables Lark makes where it was changed since they were written."""
    rules = read_data("grammar", f"{name}.lark")
    table = msgspec.json.decode(read_data("grammar", f"{name}.json"), type=Table)
    return Grammar(
        table if table.of == digest_of(rules) else msgspec.json.decode(text_of(rules, digest_of(rules)), type=Table)
    )


class Parser:
    """One reading of a text: the stacks of states and of what was built so far."""

    __slots__ = ("_builder", "_grammar", "states", "values")

    def __init__(self, grammar: Grammar, builder: Any) -> None:
        self._grammar = grammar
        self._builder = builder
        self.states = [0]
        self.values: list[Any] = []

    def feed(self, kind: str, token: Any) -> None:
        """Take the next terminal. Raises Unexpected where it does not fit; the parser is then as far as it came."""
        rows = self._grammar.rows
        while True:
            row = rows[self.states[-1]]
            step = row.get(kind)
            if step is None:
                raise Unexpected(frozenset(name for name in row if name.isupper()))
            if step >= 0:
                self.states.append(step)
                self.values.append(token)
                return
            self._reduce(self._grammar.rules[~step])

    def finish(self) -> Any:
        """What the whole text became. Raises Unexpected where something is missing."""
        while self.states[-1] != self._grammar.end:
            row = self._grammar.rows[self.states[-1]]
            step = row.get(END)
            if step is None:
                raise Unexpected(frozenset(name for name in row if name.isupper()), ended=True)
            self._reduce(self._grammar.rules[~step])
        return self.values[-1]

    def _reduce(self, rule: Rule) -> None:
        values, states, length = self.values, self.states, rule.length
        symbols = values[len(values) - length :]
        if length:
            del values[-length:], states[-length:]
        children = symbols if rule.children is None else _chosen(symbols, rule.children)
        if rule.single and len(children) == 1:
            made = children[0]
        else:
            made = children if rule.name[0] == "_" else getattr(self._builder, rule.name)(children)
        states.append(self._grammar.rows[states[-1]][rule.origin])
        values.append(made)


def _chosen(symbols: list[Any], children: list[int | None]) -> list[Any]:
    chosen: list[Any] = []
    for number in children:
        if number is None:
            chosen.append(None)
        elif number >= 0:
            chosen.append(symbols[number])
        else:
            chosen += symbols[~number]
    return chosen


def parse(text: str, grammar: Grammar, builder: Any) -> Any:
    """What the builder made of a text. Raises Unexpected, and whatever the builder raises."""
    parser = Parser(grammar, builder)
    at, end = 0, len(text)
    while at < end:
        found = grammar.scanner(parser.states[-1]).match(text, at)
        if found is None:
            row = grammar.rows[parser.states[-1]]
            raise Unexpected(frozenset(name for name in row if name.isupper() and name != END), at)
        kind = str(found.lastgroup)
        if kind not in grammar.ignored:
            token = Token(found[0])
            token.type, token.start, token.end = kind, at, found.end()
            try:
                parser.feed(kind, token)
            except Unexpected as error:
                error.at = at
                raise
        at = found.end()
    return parser.finish()
