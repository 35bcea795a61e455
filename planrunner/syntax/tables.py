"""The tables of a grammar, which Lark makes of its rules. ``lalr`` reads by those that lie beside the grammar, and has
them made by this module where the grammar was changed since.
"""

from __future__ import annotations

from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.lexer import BasicLexer, Lexer
from lark.parse_tree_builder import maybe_create_child_filter
from lark.parsers.lalr_analysis import Shift

from planrunner.jsontext import write_json


class _NoLexer(Lexer):
    """For a grammar whose terminals are declared only."""

    def __init__(self, _: Any) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        raise NotImplementedError


def text_of(grammar: str, digest: str) -> str:
    """The tables of a grammar, as ``lalr.Table`` holds them, in JSON. Raises ``lark.exceptions.LarkError`` where it is
    not LALR(1)."""
    declared = "%declare" in grammar
    lark = Lark(grammar, parser="lalr", lexer=_NoLexer if declared else "contextual", maybe_placeholders=declared)
    parsing = lark.parser.parser._parse_table
    rules: list[Rule] = lark.rules
    number = {rule: at for at, rule in enumerate(rules)}
    order = {parsing.start_states["start"]: 0}  # the numbers that Lark gives differ from run to run
    for state in (waiting := list(order)):
        for _, (action, arg) in sorted(parsing.states[state].items()):
            if action is Shift and arg not in order:
                order[arg] = len(order)
                waiting.append(arg)
    rows: list[dict[str, int]] = []
    states = []
    for state in order:
        actions = sorted(parsing.states[state].items())
        row = {name: order[arg] if action is Shift else ~number[arg] for name, (action, arg) in actions}
        if row not in rows:
            rows.append(row)
        states.append(rows.index(row))
    table = {
        "of": digest,
        "rules": [_rule(rule, declared) for rule in rules],
        "rows": rows,
        "states": states,
        "end": order[parsing.end_states["start"]],
        "terminals": [] if declared else _terminals(lark),
        "ignored": list(lark.ignore_tokens),
    }
    return write_json(table) + "\n"


def _terminals(lark: Lark) -> list[list[str]]:
    """The names and patterns of the terminals in the order in which they are tried."""
    lexer = lark.parser.lexer.root_lexer
    assert isinstance(lexer, BasicLexer)
    lexer._build_scanner()
    assert not lexer.callback, "a terminal of fixed text inside one of many texts is not provided for"
    return [[terminal.name, terminal.pattern.to_regexp()] for terminal in lexer.terminals]


def _rule(rule: Rule, placeholders: bool) -> list[Any]:
    """Name, origin, length, whether a single child stands for the node, and the children: the number of a symbol,
    ``~number`` where its children take its place, and null for one that is left out; null for all symbols."""
    empty = rule.options.empty_indices if placeholders else None
    chosen = maybe_create_child_filter(rule.expansion, False, False, empty)  # type: ignore[arg-type]
    children: list[int | None] | None = None
    if chosen is not None:
        children = []
        for at, spread, *nothing in chosen.args[0]:
            children += [None] * (nothing[0] if nothing else 0)
            children.append(~at if spread else at)
        children += [None] * (chosen.args[1] if len(chosen.args) > 1 else 0)
    name = rule.alias or rule.origin.name
    return [name, rule.origin.name, len(rule.expansion), rule.options.expand1 and not rule.alias, children]
