"""Other spellings of the same expressions: methods, tests, and filters over lists that stand for a comprehension."""

from __future__ import annotations

from typing import Any

from planrunner.plan.expressions.evaluate import BUILT_IN
from planrunner.plan.expressions.functions import FUNCTIONS
from planrunner.plan.expressions.problem import ExpressionError

Tree = Any

ALIASES = {
    "length": "len",
    "count": "len",
    "string": "str",
    "tojson": "json",
    "d": "default",
    "strip": "trim",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "splitlines": "lines",
}
"""Other names of functions."""
METHODS = frozenset(
    "upper lower strip lstrip rstrip split splitlines startswith endswith title capitalize replace".split()
    + "items keys values get".split()
)
"""Functions that may be called as a member of their first argument: ``text.upper()`` is ``upper(text)``."""
OVER_LISTS = frozenset(["map", "select", "reject", "selectattr", "rejectattr"])
TESTS = ("defined", "undefined", "string", "number", "boolean", "mapping", "sequence", "odd", "even")
CALLED = (*FUNCTIONS, *BUILT_IN, *ALIASES, *sorted(OVER_LISTS), "get")
"""Every name that can be called."""
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
        raise ExpressionError(f"there is no test `{name}`", start, end, f"there is {known}")
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
