"""What the templates and expressions of a plan carry on: a name in a comparison decides something and goes nowhere, and
a number is no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from planrunner.plan.expressions.functions import FUNCTIONS
from planrunner.plan.expressions.paths import children
from planrunner.plan.placeholders import placeholders
from planrunner.plan.template import references, tree_of
from planrunner.plan.template_tree import codes

Path: TypeAlias = "tuple[str, ...]"

_PLAIN = r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_][\w]*)*)\s*"
_NUMBERS = frozenset({"number", "bool", "time", "size"})
_COUNTING = frozenset("abs count float int length round sum wordcount".split())
_DECIDING = frozenset({"compare", "not", "and", "or", "kind", "empty", "quantity", "const", "sign"})


class Hole(NamedTuple):
    """A ``{{ … }}`` of a text, with the paths whose values come out of it."""

    start: int
    end: int
    paths: tuple[Path, ...]


@lru_cache(maxsize=4096)
def holes(text: str) -> tuple[Hole, ...]:
    """The templates of a text in their order. A text with ``{% … %}`` counts as one template that carries whatever it
    reads."""
    if "{%" in text:
        return (Hole(0, len(text), tuple(dict.fromkeys(path for path, _, _ in references(text)))),)
    if "{{" not in text:
        return ()
    return tuple(Hole(found.start, found.end, carried(found.body)) for found in placeholders(text))


@lru_cache(maxsize=4096)
def carried(body: str) -> tuple[Path, ...]:
    """The paths whose values the inside of a template hands on; ``*`` stands for a member that is computed."""
    plain = re.fullmatch(_PLAIN, body)
    if plain is not None:
        return (tuple(plain[1].split(".")),)
    nodes = tree_of("{{" + body + "}}").nodes
    return tuple(dict.fromkeys(path for code in codes(nodes) for path in expressed(code.tree)))


def expressed(tree: Any) -> Iterator[Path]:
    """The paths whose values come out of an expression of the plan language."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        operation = node[0]
        if (path := _indexed(node)) is not None:
            yield path
        elif operation == "if" or operation == "each":
            waiting += [node[5], node[4]]
        elif operation in ("slice", "index"):
            waiting.append(node[3])
        elif operation in _DECIDING or (operation == "binary" and node[3] in ("-", "/", "//", "*")):
            continue
        elif operation != "call" or not _counts(node[3]):
            waiting.extend(reversed(children(node)))


def _counts(name: str) -> bool:
    function = FUNCTIONS.get(name)
    return name in _COUNTING or name == "exists" or (function is not None and function.gives in _NUMBERS)


def _indexed(tree: Any) -> Path | None:
    """The path of names, with ``*`` for an index that is computed."""
    names: list[str] = []
    while tree[0] in ("attr", "index"):
        key = tree[4]
        if tree[0] == "index":
            key = key[3] if key[0] == "const" and isinstance(key[3], str) else "*"
        names.append(key)
        tree = tree[3]
    return (tree[3], *reversed(names)) if tree[0] == "name" else None


def searched(tree: Any) -> Iterator[Path]:
    """The paths of texts in which a condition looks for something, where it does not compare the whole text: the test
    whether a reply holds a word is met by whoever writes that word."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "call" and node[3] in ("contains", "matches", "starts_with", "ends_with"):
            yield from expressed(node[4][0])
        elif node[0] == "compare" and (at := _WHERE.get(node[3])):
            yield from expressed(node[at])
        waiting.extend(reversed(children(node)))


_WHERE = {"in": 5, "not in": 5, "contains": 4, "not contains": 4, "matches": 4, "not matches": 4, "=~": 4, "!~": 4}
"""Operators that look for something, with the place of the operand in which they do."""
