"""A text with templates as a tree: text, values, branches and loops, with the expressions inside them.

The inside of ``{{ … }}`` and the conditions and lists of ``{% if … %}`` and ``{% for … %}`` are expressions of the plan
language; what stores, includes or defines is refused by name. What cannot be read is a problem at its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.paths import localized
from planrunner.plan.expressions.problem import ExpressionError, Problem
from planrunner.plan.placeholders import closing

Tree = Any

_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_RAW = r"(?s)\{%[-+]?\s*raw\s*(-?)\+?%\}(.*?)\{%(-?)\+?\s*endraw\s*([-+]?)%\}"
_REFUSED = frozenset(
    "set macro call filter include import from extends block with do break continue autoescape".split()
)
_LITERAL = "for two braces as text write `{{ '{{' }}`, or put the part between `{% raw %}` and `{% endraw %}`"
_DEEPEST = 50


class Code(NamedTuple):
    """An expression in a text; offsets in ``tree`` count from ``start``."""

    start: int
    end: int
    tree: Tree


class Value(NamedTuple):
    """``{{ … }}``."""

    code: Code


class Branches(NamedTuple):
    """``{% if … %}``: conditions with what stands under them; the last may have none (``else``)."""

    found: list[tuple[Code | None, list[Node]]]


class Loop(NamedTuple):
    """``{% for names in … if … %}``; ``otherwise`` stands in for a loop without turns. The tree is that of a
    comprehension."""

    code: Code
    body: list[Node]
    otherwise: list[Node]


Node = Any
"""Text (a str), Value, Branches or Loop."""


class Parsed(NamedTuple):
    nodes: tuple[Node, ...]
    problems: tuple[Problem, ...]


@lru_cache(maxsize=1024)
def parsed(text: str) -> Parsed:
    """The tree of a text, and what cannot be read in it."""
    reader = _Reader(text)
    reader.run()
    return Parsed(tuple(reader.bodies[0]), tuple(sorted(reader.problems, key=lambda problem: problem.start)))


def codes(nodes: tuple[Node, ...] | list[Node]) -> Iterator[Code]:
    """Every expression of a tree in the order of the text."""
    for node in nodes:
        if isinstance(node, Value):
            yield node.code
        elif isinstance(node, Branches):
            for condition, body in node.found:
                if condition is not None:
                    yield condition
                yield from codes(body)
        elif isinstance(node, Loop):
            yield node.code
            yield from codes(node.body)
            yield from codes(node.otherwise)


class _Reader:
    """Reads a text from left to right; ``bodies`` are the lists of nodes that are open, the innermost last."""

    __slots__ = ("_at", "_open", "_strip", "_text", "bodies", "problems")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._strip = False
        self._open: list[tuple[str, int, Node, tuple[str, ...]]] = []
        """The blocks that are open: the word, the place, the node, the names it gives."""
        self.bodies: list[list[Node]] = [[]]
        self.problems: list[Problem] = []

    def run(self) -> None:
        text = self._text
        while (at := _next(text, self._at)) >= 0:
            raw = re.compile(_RAW).match(text, at) if text.startswith("{%", at) else None
            if raw is not None:
                self._write(at, text[at + 2] == "-")
                content = raw[2].lstrip() if raw[1] else raw[2]
                self.bodies[-1].append(content.rstrip() if raw[3] else content)
                self._at, self._strip = raw.end(), raw[4] == "-"
                continue
            if not self._tag(at):
                break
        self._write(len(text), False)
        for word, start, _, _ in self._open:
            self._problem(f"`{{% {word} %}}` is never closed", start, start + 2, f"end it by `{{% end{word} %}}`")

    def _write(self, end: int, strip: bool) -> None:
        """The text up to a tag; a dash in the tag takes the white space beside it away."""
        part = self._text[self._at : end]
        part = part.lstrip() if self._strip else part
        part = part.rstrip() if strip else part
        if part:
            self.bodies[-1].append(part)
        self._at = end

    def _problem(self, message: str, start: int, end: int, help: str = _LITERAL, code: str = "PLAN210") -> None:
        self.problems.append(Problem(code, message, start, max(end, start + 1), help))

    def _tag(self, at: int) -> bool:
        """Read what begins here; whether anything can be read behind it."""
        text = self._text
        sign = "}}" if text.startswith("{{", at) else "%}"
        close = closing(text, at + 2, len(text)) if sign == "}}" else _end_of_block(text, at + 2)
        if close < 0:
            self._problem(f"`{text[at : at + 2]}` is never closed", at, at + 2)
            return False
        start, end = at + 2, close
        strip = text[start : start + 1] == "-"
        start += text[start : start + 1] in ("-", "+") and start < end
        strip_next = end > start and text[end - 1] == "-"
        end -= end > start and text[end - 1] in ("-", "+")
        self._write(at, strip)
        if sign == "}}":
            code = self._code(start, end)
            if code is not None:
                self.bodies[-1].append(Value(code))
        else:
            self._block(at, start, end, close + 2)
        self._at, self._strip = close + 2, strip_next
        return True

    def _code(self, start: int, end: int, before: str = "", after: str = "") -> Code | None:
        """The expression between two offsets; ``before`` and ``after`` make an expression of the head of a loop."""
        body = self._text[start:end]
        try:
            tree = parse(f"{before}{body}{after}").tree
        except ExpressionError as error:
            first, last = (max(0, min(each - len(before), len(body))) for each in (error.start, error.end))
            message = f"the template does not parse: {error.message}"
            code = "PLAN210" if error.code == "PLAN207" else error.code
            self._problem(message, start + first, start + max(first, last), error.help or _LITERAL, code)
            return None
        names = tuple(name for _, _, _, given in self._open for name in given)
        return Code(start - len(before), end, localized(tree, names) if names else tree)

    def _block(self, at: int, start: int, end: int, behind: int) -> None:
        match = re.compile(r"\s*([A-Za-z_]\w*)\s*").match(self._text, start, end)
        word = match[1] if match else ""
        inside = match.end() if match else start
        if word == "if" and len(self._open) < _DEEPEST:
            self._begin_branches(at, inside, end)
        elif word == "for" and len(self._open) < _DEEPEST:
            self._begin_loop(at, inside, end)
        elif word in ("elif", "else"):
            self._turn(word, at, inside, end, behind)
        elif word in ("endif", "endfor") and self._open and self._open[-1][0] == word[3:]:
            self._open.pop()
            self.bodies.pop()
        elif word in _REFUSED or word.removeprefix("end") in _REFUSED:
            help_ = "compute the value in a task and read its output"
            self._problem(f"templates have no `{word.removeprefix('end')}`", at, behind, help_)
        elif word in ("if", "for"):
            self._problem(f"blocks stand more than {_DEEPEST} deep in one another", at, behind, "")
        else:
            expected = f"; `{{% end{self._open[-1][0]} %}}` is open" if self._open else ""
            self._problem(f"`{{% {word} %}}` is not expected here{expected}", at, behind)

    def _begin_branches(self, at: int, start: int, end: int) -> None:
        body: list[Node] = []
        node = Branches([(self._code(start, end) or Code(start, end, ("const", 0, 0, False)), body)])
        self.bodies[-1].append(node)
        self._open.append(("if", at, node, ()))
        self.bodies.append(body)

    def _begin_loop(self, at: int, start: int, end: int) -> None:
        code = self._code(start, end, "[0 for ", "]")
        body: list[Node] = []
        names: tuple[str, ...] = ()
        node = None
        if code is not None and code.tree[0] == "each":
            node = Loop(code, body, [])
            names = (*code.tree[3], "loop")
            self.bodies[-1].append(node)
        self._open.append(("for", at, node, names))
        self.bodies.append(body)

    def _turn(self, word: str, at: int, start: int, end: int, behind: int) -> None:
        """``elif`` or ``else`` of the innermost block."""
        opened, _, node, _ = self._open[-1] if self._open else ("", 0, None, ())
        if opened == "for" and word == "else":
            self._open[-1] = ("for", self._open[-1][1], None, ())
            self.bodies[-1] = node.otherwise if node is not None else []
        elif isinstance(node, Branches) and node.found[-1][0] is not None:
            body: list[Node] = []
            code = None
            if word == "elif":
                code = self._code(start, end) or Code(start, end, ("const", 0, 0, False))
            node.found.append((code, body))
            self.bodies[-1] = body
        else:
            self._problem(f"`{{% {word} %}}` is not expected here", at, behind)


def _next(text: str, at: int) -> int:
    """Where the next template begins, or -1."""
    found = [place for sign in ("{{", "{%") if (place := text.find(sign, at)) >= 0]
    return min(found, default=-1)


def _end_of_block(text: str, at: int) -> int:
    for match in re.compile(rf"(?s){_STRING}|%\}}").finditer(text, at):
        if match[0] == "%}":
            return match.start()
    return -1
