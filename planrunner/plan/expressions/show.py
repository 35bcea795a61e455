"""Trees back to text, for messages: canonical spacing, and brackets only where they matter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from planrunner.plan.expressions.quantities import Quantity

Tree = Any

_STRENGTH = {"if": 0, "or": 1, "and": 2, "not": 3, "compare": 4, "empty": 4, "kind": 4, "sign": 7, "concat": 5}
_SIGNS = {"+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
_ARTICLES = {
    "string": "a text",
    "number": "a number",
    "bool": "a bool",
    "list": "a list",
    "map": "a map",
    "time": "a duration",
    "size": "a size",
    "percent": "a percentage",
}


def show(tree: Tree, longest: int = 120) -> str:
    """The text of a tree, cut to ``longest`` characters."""
    text = _text(tree, 0)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _text(tree: Tree, level: int) -> str:
    if level > 100:
        return "…"
    return _SHOWN[tree[0]](tree, lambda inner, strength=0: _inside(inner, strength, level + 1))


def _inside(tree: Tree, strength: int, level: int) -> str:
    text = _text(tree, level)
    return f"({text})" if _strength(tree) < strength else text


def _strength(tree: Tree) -> int:
    return _SIGNS[tree[3]] if tree[0] == "binary" else _STRENGTH.get(tree[0], 9)


Inner = Callable[..., str]


def _attribute(tree: Tree, inner: Inner) -> str:
    return f"{inner(tree[3], 8)}.{tree[4]}"


def _binary(tree: Tree, inner: Inner) -> str:
    strength = _SIGNS[tree[3]]
    return f"{inner(tree[4], strength)} {tree[3]} {inner(tree[5], strength + 1)}"


def _not(tree: Tree, inner: Inner) -> str:
    if tree[3][0] == "empty":
        return f"{inner(tree[3][3], 5)} is not empty"
    if tree[3][0] == "kind":
        return f"{inner(tree[3][3], 5)} is not {_ARTICLES[tree[3][4]]}"
    return f"not {inner(tree[3], 3)}"


def _end(tree: Tree, inner: Inner) -> str:
    return "" if tree is None else inner(tree)


def _each(tree: Tree, inner: Inner) -> str:
    _, _, _, names, source, value, condition = tree
    kept = "" if condition is None else f" if {inner(condition, 1)}"
    return f"[{inner(value)} for {', '.join(names)} in {inner(source, 1)}{kept}]"


_SHOWN: dict[str, Callable[[Tree, Inner], str]] = {
    "const": lambda tree, _: json.dumps(tree[3], ensure_ascii=False),
    "quantity": lambda tree, _: str(Quantity(tree[3], tree[4])),
    "name": lambda tree, _: str(tree[3]),
    "local": lambda tree, _: str(tree[3]),
    "attr": _attribute,
    "slice": lambda tree, inner: f"{inner(tree[3], 8)}[{_end(tree[4], inner)}:{_end(tree[5], inner)}]",
    "each": lambda tree, inner: _each(tree, inner),
    "concat": lambda tree, inner: " ~ ".join(inner(item, 6) for item in tree[3]),
    "index": lambda tree, inner: f"{inner(tree[3], 8)}[{inner(tree[4])}]",
    "list": lambda tree, inner: f"[{', '.join(map(inner, tree[3]))}]",
    "map": lambda tree, inner: "{" + ", ".join(f"{json.dumps(key)}: {inner(item)}" for key, item in tree[3]) + "}",
    "not": _not,
    "and": lambda tree, inner: " and ".join(inner(item, 3) for item in tree[3]),
    "or": lambda tree, inner: " or ".join(inner(item, 2) for item in tree[3]),
    "if": lambda tree, inner: f"{inner(tree[4], 1)} if {inner(tree[3], 1)} else {inner(tree[5])}",
    "compare": lambda tree, inner: f"{inner(tree[4], 5)} {tree[3]} {inner(tree[5], 5)}",
    "binary": _binary,
    "sign": lambda tree, inner: f"{tree[3]}{inner(tree[4], 7)}",
    "empty": lambda tree, inner: f"{inner(tree[3], 5)} is empty",
    "kind": lambda tree, inner: f"{inner(tree[3], 5)} is {_ARTICLES[tree[4]]}",
    "call": lambda tree, inner: f"{tree[3]}({', '.join(map(inner, tree[4]))})",
}
