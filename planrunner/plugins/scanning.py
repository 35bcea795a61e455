"""What a file with capabilities says of itself, read from its syntax: nothing of it is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

HOOKS = (
    "planrunner_register_capabilities",
    "planrunner_register_rules",
    "planrunner_register_search_providers",
    "planrunner_observe_event",
)
"""The hooks of `hookspecs.py`, whose import costs more than reading a file."""


class Offered(NamedTuple):
    """A capability that the text declares: its name, effect class, other options as written, and the signature."""

    name: str
    effect: str
    options: tuple[str, ...]
    signature: str
    line: int


class Scan(NamedTuple):
    """What importing a text would register: capabilities and hooks; what it imports; ``problem`` where it cannot be
    read at all."""

    capabilities: tuple[Offered, ...] = ()
    hooks: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    problem: str = ""

    def families(self) -> frozenset[str]:
        """The part of each capability's name before its dot."""
        return frozenset(each.name.partition(".")[0] for each in self.capabilities)


def scan(text: bytes) -> Scan:
    """Read the text of a Python file. A capability counts where its name is written out in ``@capability("…")``."""
    try:
        return _description(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # too deep for Python counts as well
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return Scan(problem=f"it is no Python text: {type(error).__name__}{line}")


def _description(tree: ast.Module) -> Scan:
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    found = [offered for function in functions for offered in _offered(function)]
    hooks = tuple(sorted({each.name for each in functions if each.name in HOOKS}))
    return Scan(tuple(found), hooks, tuple(sorted(set(_imports(nodes)))))


def _offered(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Offered]:
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or _last_name(decorator.func) != "capability":
            continue
        name = _text(decorator.args[0]) if decorator.args else None
        given = {each.arg: each.value for each in decorator.keywords if each.arg}
        name = name or _text(given.pop("name", None))
        if name is None:
            continue
        effect = _text(given.pop("effect", None)) or "unsafe"
        options = tuple(f"{option}={ast.unparse(value)}" for option, value in given.items())
        returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
        signature = f"{function.name}({ast.unparse(function.args)}){returns}"
        yield Offered(name, effect, options, signature, function.lineno)


def _imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
