"""Python looked at without running it: what in a text breaks which rule of ``pythonrules``.

A filter, not a fence: names are followed through imports and plain assignments, and no further. What code really does
is bounded by the sandbox that it runs in.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import islice

from planrunner.plan.python.rules import (
    BUILTINS,
    ESCAPES,
    LOADS,
    MIXED,
    OPENS,
    REMOVES,
    TAKES_PATHS,
    WRITES,
    canonical,
    rule_of,
)
from planrunner.records import Struct

LARGEST = 256 << 10
"""Characters of a text that is looked at; a larger one is found unreadable."""

_SNIPPET = 120
_HIDDEN = 20
_LONGEST_NAME = 200
_NAME = "<scanned>"
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\x00-\x08\x0b\x0e-\x1f\x7f]")
_OUTSIDE = re.compile(r"/[^\s/*]|~|\.\.(?:/|$)|.*/\.\.(?:/|$)|[A-Za-z]:\\|\\\\")
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ESCAPE = re.compile(r"\b(?:" + "|".join(sorted(name for name in ESCAPES if name.startswith("__"))) + r")\b")
_LOAD = re.compile(rf"\b(?:{'|'.join(sorted(LOADS))})\b")
_GETTERS = ("getattr", "setattr", "delattr", "hasattr")
_BY_TEXT = ("operator.attrgetter", "operator.methodcaller")


class Found(Struct):
    """A place that breaks a rule: ``rule`` as in ``RULES``, line and column from 1, ``start`` the offset in the text,
    ``snippet`` the line, ``what`` the name or value that counts. ``sure``: no ordinary code does this."""

    rule: str
    line: int
    column: int
    start: int
    snippet: str
    what: str
    sure: bool = False


def scan(text: str) -> tuple[Found, ...]:
    """What is found in a text, in its order. Any text has an answer: one that is not Python, or too large or too
    nested to be looked at, is found ``unreadable``."""
    if len(text) > LARGEST:
        return (_unreadable(text, f"more than {LARGEST >> 10} KiB"),)
    result = [_hidden(text, match) for match in islice(_BIDI.finditer(text), _HIDDEN)]
    if encoding := _other_encoding(text):
        result.append(Found("hidden", 1, 1, 0, "", f"the encoding {encoding}", True))
    try:
        tree = _parsed(text)
        result += _Look(text, tree).found()
    except SyntaxError as error:
        result.append(_unreadable(text, f"line {error.lineno or 1}: {error.msg}", error.lineno or 1))
    except (ValueError, RecursionError, MemoryError) as error:
        result.append(_unreadable(text, str(error) if isinstance(error, ValueError) else "too deeply nested"))
    return tuple(sorted(dict.fromkeys(result), key=lambda each: each.start))


def _parsed(text: str) -> ast.Module:
    warnings.filterwarnings("ignore", module=re.escape(_NAME))  # the parser tells of doubtful escapes, on our stderr
    return ast.parse(text, _NAME)


def _other_encoding(text: str) -> str:
    """What a comment in the first two lines says that the text is encoded in, where that is not UTF-8: a reader of the
    file would see something else there."""
    for line in re.split(r"\r\n?|\n", text[:2000], maxsplit=2)[:2]:
        said = _CODING.match(line)
        if said and said[1].lower().replace("_", "-") not in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii"):
            return said[1]
    return ""


def _hidden(text: str, match: re.Match[str]) -> Found:
    line = text.count("\n", 0, match.start()) + 1
    column = match.start() - text.rfind("\n", 0, match.start())
    return Found("hidden", line, column, match.start(), "", f"U+{ord(match[0]):04X}", True)


def _unreadable(text: str, why: str, line: int = 1) -> Found:
    return Found("unreadable", line, 1, 0, "", why)


class _Look:
    """One text with its tree, and what its names stand for."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._nodes = list(ast.walk(tree))
        self._aliases: dict[str, str] = {}
        self._parents: dict[int, ast.AST] = {}
        for node in self._nodes:
            for child in ast.iter_child_nodes(node):
                self._parents[id(child)] = node
        self._name_everything()

    def found(self) -> Iterator[Found]:
        for node in self._nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from self._of_import(node)
            elif isinstance(node, (ast.Name, ast.Attribute)):
                yield from self._of_name(node)
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if what := _ESCAPE.search(node.value):
                    yield self._at(node, "dunder", what[0])
                if what := _LOAD.search(node.value):
                    yield self._at(node, "native", what[0])

    def _at(self, node: ast.AST, rule: str, what: str, sure: bool = False) -> Found:
        number, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        if isinstance(node, ast.Attribute) and what == node.attr:  # the attribute, not what it is taken from
            number, column = node.end_lineno or number, (node.end_col_offset or 0) - len(what.encode())
        line = self._lines[number - 1] if number <= len(self._lines) else ""
        column = len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
        start = self._starts[min(number, len(self._starts)) - 1] + column
        return Found(rule, number, column + 1, start, line.strip()[:_SNIPPET], what[:_SNIPPET], sure)

    # What names stand for

    def _name_everything(self) -> None:
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    self._aliases[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self._aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for _ in range(3):  # a name of a name of a name; longer chains are found by their first link
            for node in self._nodes:
                if isinstance(node, ast.Assign) and (name := self._dotted(node.value)):
                    self._aliases.update({each.id: name for each in node.targets if isinstance(each, ast.Name)})
                elif isinstance(node, ast.NamedExpr) and (name := self._dotted(node.value)):
                    self._aliases[node.target.id] = name

    def _dotted(self, node: ast.AST) -> str:
        """What an expression stands for, such as ``os.path.join``; empty where that is not known."""
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif (name := _literal_getattr(node)) is not None and isinstance(node, ast.Call):
                parts.append(name)
                node = node.args[0]
            else:
                break
        if not isinstance(node, ast.Name):
            return ""
        first = self._aliases.get(node.id) or (node.id if node.id in _KNOWN else "")
        return canonical(".".join((first, *reversed(parts)))[:_LONGEST_NAME]) if first else ""

    # What breaks a rule

    def _of_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Found]:
        if isinstance(node, ast.ImportFrom) and node.level:
            return
        for alias in node.names:
            name = canonical(alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}")
            rule = rule_of(name)
            if alias.name == "*" and not rule and str(node.module).split(".")[0] in MIXED:  # type: ignore[union-attr]
                rule = "dynamic"
            if rule:
                yield self._at(node, rule, name)

    def _of_name(self, node: ast.Name | ast.Attribute) -> Iterator[Found]:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in ESCAPES and not self._only_names_a_class(node) and (isinstance(node, ast.Attribute) or "__" in name):
            yield self._at(node, "dunder", name, name in ("__subclasses__", "__globals__", "__builtins__"))
        elif name in LOADS:
            yield self._at(node, "native", name)
        elif name == "__dict__":
            yield self._at(node, "dynamic", name)
        whole, above = self._dotted(node), self._parents.get(id(node))
        if isinstance(above, ast.Attribute) or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)):
            return  # the whole of a dotted name is judged, and a name that is only bound does nothing
        if rule := rule_of(whole):
            yield self._at(node, rule, whole, rule == "eval" and self._runs_data(node))
        if whole in MIXED and not isinstance(above, ast.Assign) and not self._is_got_from(node, above):
            yield self._at(node, "dynamic", f"{whole} as a value")

    def _only_names_a_class(self, node: ast.AST) -> bool:
        above = self._parents.get(id(node))
        named = isinstance(above, ast.Attribute) and above.attr in ("__name__", "__qualname__")
        return named and isinstance(node, ast.Attribute) and node.attr == "__class__"

    def _is_got_from(self, node: ast.AST, above: ast.AST | None) -> bool:
        """Whether it is what a ``getattr`` with a literal name takes its attribute from."""
        return isinstance(above, ast.Call) and _literal_getattr(above) is not None and above.args[0] is node

    def _runs_data(self, node: ast.AST) -> bool:
        """Whether it is called with something else than a literal."""
        above = self._parents.get(id(node))
        called = isinstance(above, ast.Call) and above.func is node and bool(above.args)
        return called and not isinstance(above.args[0], ast.Constant)  # type: ignore[union-attr]

    def _of_call(self, node: ast.Call) -> Iterator[Found]:
        name = self._dotted(node.func)
        text = node.args[0] if node.args else None
        if name.startswith("subprocess.") and _is_shell(node):
            yield self._at(node, "shell", f"{name} with shell=True", not isinstance(text, ast.Constant))
        elif rule_of(name) == "shell" and text is not None and not isinstance(text, ast.Constant):
            yield self._at(node, "shell", name, True)
        if (name in _GETTERS and _literal_getattr(node) is None) or (name in _BY_TEXT and not _is_literal(text)):
            yield self._at(node, "dynamic", name)
        if (attribute := _literal_getattr(node)) is not None:
            whole = self._dotted(node)
            rule = "dunder" if attribute in ESCAPES and "__" not in attribute else rule_of(whole) if whole else ""
            if rule:
                yield self._at(node, rule, whole or attribute)
        yield from self._of_files(node, name)

    def _of_files(self, node: ast.Call, name: str) -> Iterator[Found]:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in REMOVES and not rule_of(name):
            yield self._at(node, "delete", method)
        takes = name in TAKES_PATHS or rule_of(name) == "delete"
        place = next((text for text in _texts(node) if _OUTSIDE.match(text)), "") if takes else ""
        writes = (name in OPENS and _writes(node)) or self._is_written(node)
        if place:
            yield self._at(node, "write-outside" if writes else "read-outside", place)
        elif writes and not _is_literal(_path(node)):
            yield self._at(node, "write", name)

    def _is_written(self, node: ast.Call) -> bool:
        """Whether a path that the call makes is written to right there: ``Path(…).write_text(…)``."""
        above = self._parents.get(id(node))
        return isinstance(above, ast.Attribute) and above.attr in WRITES


_KNOWN = BUILTINS | {"open", *_GETTERS}


def _literal_getattr(node: ast.AST | None) -> str | None:
    """The attribute that ``getattr`` and its kin are asked for, where that is a literal; else None."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _GETTERS):
        return None
    name = node.args[1] if len(node.args) > 1 else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _is_literal(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant)


def _is_shell(node: ast.Call) -> bool:
    given = [each.value for each in node.keywords if each.arg == "shell"]
    return bool(given) and not (isinstance(given[0], ast.Constant) and not given[0].value)


def _texts(node: ast.Call) -> list[str]:
    """The literal texts among the arguments."""
    given = [*node.args, *(each.value for each in node.keywords)]
    return [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _path(node: ast.Call) -> ast.AST | None:
    given = node.args[:1] or [each.value for each in node.keywords if each.arg in ("file", "path")]
    return given[0] if given else None


def _writes(node: ast.Call) -> bool:
    """Whether ``open`` is called with a mode that writes, or with one that is not known."""
    given = node.args[1:2] or [each.value for each in node.keywords if each.arg in ("mode", "flags")]
    if not given:
        return False
    mode = given[0].value if isinstance(given[0], ast.Constant) else "w"
    return not isinstance(mode, str) or any(sign in mode for sign in "wax+")
