"""Text to trees by the grammar ``grammar/expr.lark``; the wording of errors is ours.

``Building`` is called by the parser while it reads, one rule at a time, bottom up.
"""

from __future__ import annotations

import re
from typing import Any

from planrunner.plan.expressions.functions import ALIASES, DEFAULT_WORDS, FUNCTIONS, METHODS, OVER_LISTS
from planrunner.plan.expressions.quantities import meant_quantity, parse_count, parse_quantity
from planrunner.plan.expressions.tree import CONSTANTS, LONGEST_NUMBER, localized, unquoted
from planrunner.plan.expressions.values import SPLIT, TOO_DEEP, ExpressionError
from planrunner.plan.nearest import meant, nearest
from planrunner.syntax.lalr import Token, Unexpected, grammar, parse

Tree = Any


Tail = tuple[str, Any, int]
"""Operator, right side, end: what follows the left side of a comparison."""

COMPARISONS = {"is": "==", "is not": "!=", "is in": "in", "is not in": "not in"}
KINDS = {
    "string": "string",
    "text": "string",
    "number": "number",
    "bool": "bool",
    "boolean": "bool",
    "list": "list",
    "map": "map",
    "mapping": "map",
    "duration": "time",
    "size": "size",
    "percentage": "percent",
}


class Building:
    """One method a rule of ``grammar/expr.lark``; shapes of trees are listed in ``evaluate.py``."""

    def start(self, items: list[Tree]) -> Tree:
        return items[0]

    def choice(self, items: list[Tree]) -> Tree:
        then, condition, otherwise = items
        return ("if", then[1], otherwise[2], condition, then, otherwise)

    def disjunction(self, items: list[Tree]) -> Tree:
        return ("or", items[0][1], items[-1][2], tuple(items))

    def conjunction(self, items: list[Tree]) -> Tree:
        return ("and", items[0][1], items[-1][2], tuple(items))

    def negate(self, items: list[Any]) -> Tree:
        return ("not", items[0].start, items[1][2], items[1])

    def comparison(self, items: list[Any]) -> Tree:
        left, (operator, right, end), *more = items
        if more:
            raise ExpressionError(
                "comparisons cannot be chained",
                left[1],
                more[-1][2],
                "join two comparisons by `and`, such as `1 < x and x < 5`",
            )
        if operator == "test":
            positive, name = right
            test = tested(name, left, left[1], end)
            return test if positive else ("not", left[1], end, test)
        if operator in ("empty", "kind"):
            positive, *rest = right
            test = (operator, left[1], end, left, *rest)
            return test if positive else ("not", left[1], end, test)
        return ("compare", left[1], end, operator, left, right)

    def against(self, items: list[Any]) -> Tail:
        operator = " ".join(items[0].split())
        return (COMPARISONS.get(operator, operator), items[1], items[1][2])

    def emptiness(self, items: list[Token]) -> Tail:
        return ("empty", ("not" not in items[0].split(),), items[0].end)

    def kind(self, items: list[Token]) -> Tail:
        words = items[0].split()
        if words[-1] not in KINDS:
            raise ExpressionError(
                f"`{words[-1]}` is not a type of value",
                items[0].end - len(words[-1]),
                items[0].end,
                "types are text, number, bool, list, map, duration, size and percentage",
            )
        return ("kind", ("not" not in words, KINDS[words[-1]]), items[0].end)

    def concat(self, items: list[Any]) -> Tree:
        left, right = items
        parts = left[3] if left[0] == "concat" else (left,)
        return ("concat", left[1], right[2], (*parts, right))

    def test(self, items: list[Token]) -> Tail:
        words = items[0].split()
        return ("test", ("not" not in words, words[-1]), items[0].end)

    def filter(self, items: list[Any]) -> Tree:
        value, name, *rest = items
        arguments = [each for each in rest if not isinstance(each, Token)]
        place = (value[1], rest[-1].end if rest else name.end)
        return _called(name, [value, *arguments], place)

    def method(self, items: list[Any]) -> Tree:
        container, name, _, *arguments, end = items
        if name not in METHODS:
            meant = nearest(name, sorted(METHODS))
            help_ = f"did you mean `{meant}`?" if meant else "functions are written `name(value)` or `value | name`"
            raise ExpressionError(f"unknown method `{name}`", name.start, name.end, help_)
        return _called(name, [container, *arguments], (container[1], end.end))

    def keyword(self, items: list[Any]) -> Tree:
        word, value = items
        return ("keyword", word.start, value[2], word.rstrip(" \t\n="), value)

    def part(self, items: list[Any]) -> Tree:
        container, first, last, end = items
        return ("slice", container[1], end.end, container, first, last)

    def part_from(self, items: list[Any]) -> Tree:
        container, first, end = items
        return ("slice", container[1], end.end, container, first, None)

    def part_to(self, items: list[Any]) -> Tree:
        container, last, end = items
        return ("slice", container[1], end.end, container, None, last)

    def targets(self, items: list[Token]) -> tuple[str, ...]:
        return tuple(map(str, items))

    def comprehension(self, items: list[Any]) -> Tree:
        start, value, names, source, *rest = items
        condition = localized(rest[0], names) if len(rest) > 1 else None
        return ("each", start.start, rest[-1].end, names, source, localized(value, names), condition)

    def binary(self, items: list[Any]) -> Tree:
        left, operator, right = items
        return ("binary", left[1], right[2], str(operator), left, right)

    def signed(self, items: list[Any]) -> Tree:
        sign, operand = items
        return ("sign", sign.start, operand[2], str(sign), operand)

    def member(self, items: list[Any]) -> Tree:
        return ("attr", items[0][1], items[1].end, items[0], str(items[1]))

    def index(self, items: list[Any]) -> Tree:
        return ("index", items[0][1], items[2].end, items[0], items[1])

    def name(self, items: list[Token]) -> Tree:
        return ("name", items[0].start, items[0].end, str(items[0]))

    def grouped(self, items: list[Token]) -> Tree:
        start = at = items[0].start
        tree: Tree = None
        for part in items[0].split("."):
            name, end = part.strip(), at + len(part.rstrip())
            tree = ("attr", start, end, tree, name) if tree else ("name", start, end, name)
            at += len(part) + 1
        return tree

    def constant(self, items: list[Token]) -> Tree:
        return self._const(items[0], CONSTANTS[str(items[0])])

    def number(self, items: list[Token]) -> Tree:
        token = items[0]
        if len(token) > LONGEST_NUMBER:
            raise ExpressionError(f"the number has more than {LONGEST_NUMBER} characters", token.start, token.end)
        value = int(token) if token.isdigit() else float(token)
        if value == float("inf"):
            raise ExpressionError("the number is too large", token.start, token.end)
        return self._const(token, value)

    def quantity(self, items: list[Token]) -> Tree:
        token = items[0]
        found = parse_quantity(token)
        if found is not None:
            return ("quantity", token.start, token.end, found.amount, found.dimension)
        count = parse_count(token)
        if count is not None:
            return self._const(token, count)
        raise ExpressionError(
            f"`{token[:40]}` is not a quantity",
            token.start,
            token.end,
            "write larger units first, each once, such as `1h30m`",
        )

    def string(self, items: list[Token]) -> Tree:
        return self._const(items[0], unquoted(items[0]))

    def call(self, items: list[Any]) -> Tree:
        name, _, *arguments, end = items
        return _called(name, arguments, (name.start, end.end))

    def parenthesised(self, items: list[Any]) -> Tree:
        start, inner, end = items
        return (inner[0], start.start, end.end, *inner[3:])

    def sequence(self, items: list[Any]) -> Tree:
        start, *values, end = items
        return ("list", start.start, end.end, tuple(values))

    def mapping(self, items: list[Any]) -> Tree:
        start, *pairs, end = items
        return ("map", start.start, end.end, tuple(pairs))

    def pair(self, items: list[Any]) -> Tree:
        key, value = items
        return (unquoted(key) if key.type == "STRING" else str(key), value)

    def _const(self, token: Token, value: object) -> Tree:
        return ("const", token.start, token.end, value)


def _called(name: Token, arguments: list[Tree], place: tuple[int, int]) -> Tree:
    """A call of a function by any of its names, each argument at its place."""
    plain = tuple(each for each in arguments if each[0] != "keyword")
    words = {each[3]: each[4] for each in arguments if each[0] == "keyword"}
    if str(name) in OVER_LISTS:
        return over_list(str(name), plain, words, place)
    if str(name) == "get":
        return _got(name, plain, place)
    word = ALIASES.get(str(name), str(name))
    if word in ("sum", "join") and "attribute" in words and plain:
        plain = (over_list("map", plain[:1], {"attribute": words.pop("attribute")}, place), *plain[1:])
    return ("call", *place, word, _placed(name, word, plain, words), name.start)


def _placed(name: Token, word: str, plain: tuple[Tree, ...], words: dict[str, Tree]) -> tuple[Tree, ...]:
    """The arguments in their order; one that is left out before another is null."""
    if not words or (word not in FUNCTIONS and word != "default"):
        return (*plain, *words.values())
    known = FUNCTIONS[word].words if word in FUNCTIONS else DEFAULT_WORDS
    result = list(plain)
    for key, value in words.items():
        at = known.index(key) if key in known else -1
        if at < len(plain):
            problem = f"`{name}` has no argument `{key}`" if at < 0 else f"`{name}` gets its argument `{key}` twice"
            near = nearest(key, known[1:])
            help_ = f"did you mean `{near}`?" if near else f"it has {', '.join(f'`{each}`' for each in known)}"
            raise ExpressionError(problem, name.start, name.end, help_, "PLAN208")
        result += [("const", value[1], value[1], None)] * (at + 1 - len(result))
        result[at] = value
    return tuple(result)


def _got(name: Token, arguments: tuple[Tree, ...], place: tuple[int, int]) -> Tree:
    """``map.get(key, other)`` as ``default(map[key], other)``."""
    if not 2 <= len(arguments) <= 3:
        raise ExpressionError("`get` takes a key and a default", name.start, name.end, "", "PLAN208")
    found = ("index", *place, arguments[0], arguments[1])
    other = arguments[2] if len(arguments) > 2 else ("const", *place, None)
    return ("call", *place, "default", (found, other), name.start)


def parse_by_grammar(text: str) -> Tree:
    """The tree of an expression. Raises ExpressionError."""
    try:
        return parse(text, grammar("expr"), Building())
    except Unexpected as error:
        raise _unexpected(text, error) from None
    except RecursionError:
        raise ExpressionError(TOO_DEEP, 0, len(text), SPLIT) from None


_WRITE_INSTEAD = {
    "&&": "and",
    "||": "or",
    "===": "==",
    "=~": "matches",
    "=": "==",
    "!": "not",
    "<>": "!=",
    "**": "",
}
_TOKEN = re.compile(r"===|=~|&&|\|\||<>|\*\*|//|[A-Za-z_][A-Za-z0-9_]*|\$?[0-9][A-Za-z0-9_.%]*|\S|$")


def _unexpected(text: str, error: Unexpected) -> ExpressionError:
    """Our own words for what the parser stumbled over."""
    if error.ended:
        return _unfinished(text)
    at = _operator_start(text, error.at)
    token = _TOKEN.match(text, at)
    word = token[0] if token else text[at]
    end = at + len(word)
    if word[0] in "\"'":
        return _quote(text, at)
    if word in _WRITE_INSTEAD:
        instead = _WRITE_INSTEAD[word]
        return ExpressionError(f"`{word}` is not an operator", at, end, f"write `{instead}`" if instead else "")
    if word[0].isdigit() or word[0] == "$":
        return _number(word, at)
    return ExpressionError(f"`{word}` is not expected here", at, end, _hint(text, word, at))


def _operator_start(text: str, at: int) -> int:
    """Where an operator that the language does not have begins: of ``===`` the first two signs were read already."""
    for start in range(max(0, at - 2), at):
        token = _TOKEN.match(text, start)
        if token and token[0] in _WRITE_INSTEAD and token.end() > at:
            return start
    return at


def _unfinished(text: str) -> ExpressionError:
    end = len(text.rstrip())
    opened = _open_bracket(text)
    if opened >= 0:
        return ExpressionError(f"`{text[opened]}` is never closed", opened, opened + 1)
    last = re.search(r"\S+$", text[:end])
    word = last[0] if last else text
    return ExpressionError(f"something is missing after `{word[-40:]}`", max(0, end - len(word)), end)


def _open_bracket(text: str) -> int:
    """The offset of the innermost bracket that is still open at the end, or -1."""
    stack: list[int] = []
    for match in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\[\](){}]", text, re.DOTALL):
        if match[0] in "([{":
            stack.append(match.start())
        elif match[0] in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else -1


def _quote(text: str, at: int) -> ExpressionError:
    quote = text[at]
    closed = re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}", re.DOTALL).match(text, at)
    if closed:
        return ExpressionError("quoted text is not expected here", at, closed.end(), "an operator is missing before it")
    return ExpressionError(f"text that begins with {quote} has no end", at, len(text), f"close it with {quote}")


def _number(word: str, at: int) -> ExpressionError:
    end = at + len(word)
    if parse_quantity(word) is not None or parse_count(word) is not None:
        return ExpressionError(f"`{word}` is not expected here", at, end, "an operator is missing before it")
    near = meant_quantity(word)
    return ExpressionError(
        f"`{word}` is neither a number nor a quantity{meant(near)}",
        at,
        end,
        "quantities look like `10m`, `1h30m`, `50MB`, `$2`, `80%`, `200k`",
    )


def _hint(text: str, word: str, at: int) -> str:
    if word in (")", "]", "}"):
        return "nothing is open that it could close" if _open_bracket(text[:at]) < 0 else "a value is missing before it"
    if word in ("{", "`"):
        return "an expression is written without {{ }}" if "{{" in text[max(0, at - 1) : at + 2] else ""
    if word == "?":
        return "one of two values is written `b if a else c`"
    if word == "%":
        return "put spaces around `%` to compute a remainder"
    number = re.search(r"(?<![\w.])[0-9.]+\s+$", text[:at])
    if number and (near := meant_quantity(number[0] + word)):
        return f"a unit stands right behind its number: `{near}`"
    if word[0].isalpha() and at and text[:at].rstrip()[-1:].isalnum():
        return f"an operator is missing before `{word}`; write text in quotes"
    return ""


TESTS = ("defined", "undefined", "string", "number", "boolean", "mapping", "sequence", "odd", "even")
_KINDS = {"string": "string", "number": "number", "boolean": "bool", "mapping": "map", "sequence": "list"}
COMPARED = {
    "==": "==", "eq": "==", "equalto": "==", "!=": "!=", "ne": "!=", "<": "<", "lt": "<", "<=": "<=", "le": "<=",
    ">": ">", "gt": ">", "greaterthan": ">", ">=": ">=", "ge": ">=", "lessthan": "<", "in": "in",
    "contains": "contains", "matches": "matches",
}  # fmt: skip
_ITEM = "item"


def tested(name: str, value: Tree, start: int, end: int) -> Tree:
    """``value is name`` in other words. Raises ExpressionError for a name that is not a test."""
    if name in ("defined", "undefined"):
        exists = ("call", start, end, "exists", (value,))
        return exists if name == "defined" else ("not", start, end, exists)
    if name in ("odd", "even"):
        rest = ("binary", start, end, "%", value, ("const", start, end, 2))
        return ("compare", start, end, "==", rest, ("const", start, end, int(name == "odd")))
    if name in ("none", "null"):
        return ("compare", start, end, "==", value, ("const", start, end, None))
    if name not in _KINDS:
        known = ", ".join([*TESTS, "none", *COMPARED])
        raise ExpressionError(f"unknown test `{name}`", start, end, f"tests are {known}")
    return ("kind", start, end, value, _KINDS[name])


def over_list(name: str, arguments: tuple[Tree, ...], words: dict[str, Tree], place: tuple[int, int]) -> Tree:
    """``list | map(attribute="a")`` and its like as ``[item.a for item in list]``."""
    start, end = place
    if not arguments:
        raise ExpressionError(f"`{name}` takes a list", start, end)
    source, *rest = arguments
    item: Tree = ("local", start, end, _ITEM)
    if name == "map":
        return ("each", start, end, (_ITEM,), source, _mapped(item, rest, words, place), None)
    if words:
        raise ExpressionError(f"`{name}` has no `{next(iter(words))}`", start, end)
    value = item
    if name.endswith("attr"):
        value = _member(item, _text(rest[:1], name, place))
        rest = rest[1:]
    condition = _condition(value, rest, name, place) if rest else value
    if name.startswith("reject"):
        condition = ("not", start, end, condition)
    return ("each", start, end, (_ITEM,), source, item, condition)


def _mapped(item: Tree, rest: list[Tree], words: dict[str, Tree], place: tuple[int, int]) -> Tree:
    start, end = place
    if "attribute" in words and not rest and words.keys() <= {"attribute", "default"}:
        found = _member(item, _text([words["attribute"]], "map", place))
        return ("call", start, end, "default", (found, words["default"])) if "default" in words else found
    if words:
        raise ExpressionError("`map` takes `attribute` alone, or the name of a function", start, end)
    name = _text(rest[:1], "map", place)
    return ("call", start, end, ALIASES.get(name, name), (item, *rest[1:]))


def _condition(value: Tree, rest: list[Tree], name: str, place: tuple[int, int]) -> Tree:
    start, end = place
    test = _text(rest[:1], name, place)
    if test not in COMPARED:
        return tested(test, value, start, end)
    if len(rest) != 2:
        raise ExpressionError(f'`{name}` takes a value behind "{test}"', start, end)
    return ("compare", start, end, COMPARED[test], value, rest[1])


def _member(item: Tree, path: str) -> Tree:
    for name in path.split("."):
        step = ("const", item[1], item[2], int(name) if name.isdigit() else name)
        item = ("index", item[1], item[2], item, step) if name.isdigit() else ("attr", item[1], item[2], item, name)
    return item


def _text(trees: list[Tree], name: str, place: tuple[int, int]) -> str:
    """A text that is written out: what it names is known before a run."""
    if not trees or trees[0][0] != "const" or not isinstance(trees[0][3], str):
        raise ExpressionError(f"`{name}` takes a name in quotes", *place, "write `[x.name for x in list if x.ok]`")
    return str(trees[0][3])
