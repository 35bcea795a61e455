"""Text to calls: the grammar is ``grammar/command.lark``, the wording of errors is ours."""

from __future__ import annotations

import re
from typing import Any

from planrunner.plan.commands.calls import Argument, Call, CommandError, Word
from planrunner.plan.commands.statements import pieces, unwrapped
from planrunner.plan.expressions.grammar import Building
from planrunner.plan.expressions.values import ExpressionError
from planrunner.syntax.lalr import Token, Unexpected, grammar
from planrunner.syntax.lalr import parse as parse_by

LONGEST = 65_536
"""Characters of one command."""
MOST = 1_000
"""Calls of one command."""
DEEPEST = 32
"""Brackets inside brackets."""


def parse(text: str) -> tuple[Call, ...]:
    """The calls of a command, in their order. Raises CommandError."""
    if len(text) > LONGEST:
        raise CommandError(f"the command has {len(text):,} characters, {LONGEST:,} are allowed", LONGEST, len(text))
    for piece in pieces(text):
        if piece.depth > DEEPEST:
            raise CommandError(f"brackets are nested more than {DEEPEST} levels deep", piece.start, piece.end)
    ready = unwrapped(text)
    try:
        calls: tuple[Call, ...] = parse_by(ready, grammar("command"), Reading())
    except Unexpected as error:
        raise _unexpected(ready, error) from None
    except ExpressionError as error:
        raise CommandError(error.message, error.start, error.end, error.help) from None
    if len(calls) > MOST:
        raise CommandError(
            f"the command has {len(calls):,} calls, {MOST:,} are allowed", calls[MOST].verb.start, len(text)
        )
    return calls


_TOKEN = re.compile(r"->|==|[A-Za-z_][A-Za-z0-9_]*|\$?[0-9][A-Za-z0-9_.%]*|[\s\S]|$")
_NAMED = {
    "VERB": "a call such as `search(query)`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "RBRACE": "`}`",
    "_ARROW": "`-> name`",
    "_COMMA": "`,`",
    "_COLON": "`:`",
    "_SEPARATOR": "`;` or a new line",
    "NAME": "a name",
}
_CLOSING = frozenset({"RPAR", "RSQB", "RBRACE", "_COLON"})


def _unexpected(text: str, error: Unexpected) -> CommandError:
    """Our own words for what the parser stumbled over."""
    at = len(text.rstrip()) if error.ended else error.at
    allowed = set(error.expected)
    expected = _expected(allowed - _CLOSING | {_closing(text, at)} if allowed & _CLOSING else allowed)
    if error.ended or at >= len(text.rstrip()):
        return _unfinished(text, expected)
    word = (_TOKEN.match(text, at) or [""])[0]
    start, end = at, at + max(1, len(word))
    if word[:1] in "\"'" and not re.compile(r"\"(?:[^\"\\]|\\[\s\S])*\"|'(?:[^'\\]|\\[\s\S])*'").match(text, at):
        return CommandError(f"text that begins with {word} has no end", at, len(text), f"close it with {word}")
    opened = _opened(text, at)
    if word == "->" and opened:
        return CommandError(f"`{text[opened[-1]]}` is never closed", opened[-1], opened[-1] + 1)
    shown = "the end of the line" if word == "\n" else f"`{word}`"
    return CommandError(f"{shown} is not expected here, but {expected}", start, end, _hint(text, at, word))


def _expected(terminals: set[str]) -> str:
    """What might stand there, in a few words."""
    value = "STRING" in terminals
    words = ["a value"] if value else []
    words += [_NAMED[name] for name in _NAMED if name in terminals and not (name == "NAME" and value)]
    words = words or ["something else"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _closing(text: str, at: int) -> str:
    """The bracket that closes the innermost one that is open: the table of the parser knows no better."""
    opened = _opened(text, at)
    return {"(": "RPAR", "[": "RSQB", "{": "RBRACE"}[text[opened[-1]]] if opened else ""


def _opened(text: str, end: int) -> list[int]:
    """The brackets that are open at a place, the innermost last."""
    opened: list[int] = []
    for piece in pieces(text):
        if piece.kind == "bracket" and piece.start < end:
            if text[piece.start] in "([{":
                opened.append(piece.start)
            elif opened:
                opened.pop()
    return opened


def _unfinished(text: str, expected: str) -> CommandError:
    end = len(text.rstrip())
    opened = _opened(text, end)
    if opened:
        return CommandError(f"`{text[opened[-1]]}` is never closed", opened[-1], opened[-1] + 1)
    last = re.search(r"\S+$", text[:end])
    start = last.start() if last else 0
    return CommandError(f"{expected} is missing after `{text[start:end][-40:]}`", start, end)


_WORDS = "an instruction in plain words begins with words, not with a call"


def _hint(text: str, at: int, word: str) -> str:
    end = at + len(word)
    if word == "(":
        return "calls do not nest: bind the inner one first, `search(query) -> found`"
    if word == ":":
        return "an argument by name is written with `=`"
    if word == "->":
        return "a result follows the call: `search(query) -> results`"
    if word == "=":
        return "a result is bound behind the call: `search(query) -> found`"
    before = text[:at].rstrip()[-1:]
    if re.compile(r"[A-Za-z0-9_.]+[ \t]+\(").match(text, at):
        return "the bracket follows the name directly: `search(query)`"
    if re.compile(r"[A-Za-z0-9_]+\s*=[^=]").match(text, at):
        return "a result is bound behind the call: `search(query) -> found`"
    if word[:1].isalpha() and (before == ")" or text[end : end + 1] == "("):
        return f"calls are parted by `;` or a new line; {_WORDS}"
    if word[:1].isalpha() and (before.isalnum() or before == "_"):
        return "write text in quotes"
    return ""


Tree = Any


class Reading(Building):
    """The rules of ``grammar/command.lark`` that expressions do not have; values are built as theirs are."""

    def start(self, items: list[Call]) -> tuple[Call, ...]:
        return tuple(items)

    def call(self, items: list[Any]) -> Call:
        verb, opened, *rest = items
        result = _word(rest.pop()) if isinstance(rest[-1], Token) and rest[-1].type == "NAME" else None
        closed = rest.pop()
        return Call(_word(verb), tuple(rest), opened.start, closed.end, result)

    def positional(self, items: list[Tree]) -> Argument:
        (value,) = items
        return Argument("", value, value[1], value[2])

    def keyword(self, items: list[Any]) -> Argument:
        name, value = items
        return Argument(str(name), value, name.start, value[2])

    def negative(self, items: list[Any]) -> Tree:
        sign, token = items
        number = self.number([token])
        return ("const", sign.start, number[2], -number[3])


def _word(token: Token) -> Word:
    return Word(str(token), token.start, token.end)
