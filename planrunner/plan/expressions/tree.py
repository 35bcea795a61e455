"""Trees of expressions: the names that they read, the text that shows them, the literals in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from planrunner.plan.expressions.quantities import Quantity

Tree: TypeAlias = "Any"


def path_of(tree: Tree) -> tuple[str, ...] | None:
    """The path that a chain of names is, such as ``("tasks", "test", "outputs")``, or None for any other tree.

    An index by a literal text counts as a name: ``tasks["sign-off"].ok`` is ``("tasks", "sign-off", "ok")``.
    """
    names: list[str] = []
    while tree[0] in ("attr", "index"):
        operation, _, _, tree, key = tree
        if operation == "index":
            if key[0] != "const" or not isinstance(key[3], str):
                return None
            key = key[3]
        names.append(key)
    if tree[0] != "name":
        return None
    return (tree[3], *reversed(names))


def paths_of(tree: Tree) -> tuple[tuple[str, ...], ...]:
    """Every path that a tree reads, each once, in the order of the text.

    Before a computed index the path ends there: ``params.hosts[attempt]`` reads
    ``("params", "hosts")`` and ``("attempt",)``.
    """
    result: dict[tuple[str, ...], None] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path is not None:
            result[path] = None
            continue
        waiting.extend(reversed(children(node)))
    return tuple(result)


def children(tree: Tree) -> list[Tree]:
    """The operands of one operation, in the order of the text."""
    operation = tree[0]
    if operation in ("const", "quantity", "name", "local"):
        return []
    if operation == "map":
        return [value for _, value in tree[3]]
    if operation in ("and", "or", "list", "concat"):
        return list(tree[3])
    if operation == "call":
        return list(tree[4])
    if operation == "each":
        return [operand for operand in tree[4:] if operand is not None]
    return [operand for operand in tree[3:] if isinstance(operand, (tuple, list))]


def paths_with_places(tree: Tree) -> list[tuple[tuple[str, ...], int, int]]:
    """Every path that a tree reads, with its offsets, in the order of the text."""
    result: list[tuple[tuple[str, ...], int, int]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path is not None:
            result.append((path, node[1], node[2]))
        else:
            waiting.extend(children(node))
    return sorted(result, key=lambda one: one[1])


def equalities(tree: Tree) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """What a tree compares by ``==`` or ``!=`` with a constant: the path of each name, and the constant."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        waiting += children(node)
        if node[0] != "compare" or node[3] not in ("==", "!="):
            continue
        for side, other in ((node[4], node[5]), (node[5], node[4])):
            path = path_of(side)
            if path is not None and other[0] == "const":
                yield path, other


def localized(tree: Tree, names: tuple[str, ...]) -> Tree:
    """The tree with the names that a comprehension or a loop gives marked as such: they are not names of the plan."""
    if not isinstance(tree, tuple):
        return tree
    if len(tree) == 4 and tree[0] == "name" and tree[3] in names:
        return ("local", *tree[1:])
    return tuple([localized(part, names) for part in tree])


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


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\s\S])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/"}

CONSTANTS = {"true": True, "false": False, "null": None, "none": None, "True": True, "False": False, "None": None}
LONGEST_NUMBER = 30
"""Characters of one number."""


def unquoted(token: str) -> str:
    """The text inside quotes; other backslashes stay, so that patterns such as ``\\d`` are whole."""
    return _ESCAPE.sub(_unescaped, token[1:-1]) if "\\" in token else token[1:-1]


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, match[0])
