"""Templates: ``{{ … }}``, ``{% if … %}`` and ``{% for … %}`` in texts, rendered once, with values as data.

``placeholders`` finds the braces alone, ``tree_of`` gives text, values, branches and loops with their expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from planrunner.plan.expressions.evaluate import Evaluation, evaluated, holds, named
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.tree import localized, path_of, paths_with_places, show
from planrunner.plan.expressions.values import (
    LONGEST_TEXT,
    NAMES,
    EvaluationError,
    ExpressionError,
    Problem,
    Scope,
    TemplateError,
    kind,
    plain,
    text_of,
)
from planrunner.plan.templated import is_template
from planrunner.records import Struct

Json = Any
Tree = Any


class Placeholder(Struct):
    """``{{ body }}`` with its offsets; ``closed`` is false where the closing braces are missing."""

    start: int
    end: int
    body: str
    closed: bool = True


_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# Patterns are compiled when first used: most runs need none of them.
_INSIDE = rf"(?s){_STRING}|\}}\}}|[{{}}]"


def placeholders(text: str, start: int = 0, end: int | None = None) -> list[Placeholder]:
    """Every ``{{ … }}`` between two offsets, in order. Braces inside quoted text and of maps do not close it."""
    result = []
    end = len(text) if end is None else end
    at = text.find("{{", start, end)
    while at >= 0:
        close = closing(text, at + 2, end)
        if close < 0:
            result.append(Placeholder(at, end, text[at + 2 : end], False))
            break
        result.append(Placeholder(at, close + 2, text[at + 2 : close]))
        at = text.find("{{", close + 2, end)
    return result


def closing(text: str, at: int, end: int) -> int:
    """The offset of the braces that close what begins before ``at``, or -1."""
    depth = 0
    for match in re.compile(_INSIDE).finditer(text, at, end):
        sign = match[0]
        if sign == "{":
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
        elif sign == "}}":
            if not depth:
                return match.start()
            depth = max(0, depth - 2)
            if text.startswith("}", match.end()) and not depth and text.startswith("}}", match.end() - 1):
                return match.end() - 1
    return -1


_RAW = r"(?s)\{%[-+]?\s*raw\s*(-?)\+?%\}(.*?)\{%(-?)\+?\s*endraw\s*([-+]?)%\}"
_REFUSED = frozenset(
    "set macro call filter include import from extends block with do break continue autoescape".split()
)
_LITERAL = "for two braces as text write `{{ '{{' }}`, or put the part between `{% raw %}` and `{% endraw %}`"
_DEEPEST = 50


class Code(Struct):
    """An expression in a text; offsets in ``tree`` count from ``start``. ``text`` is what was parsed."""

    start: int
    end: int
    tree: Tree
    text: str = ""


class Value(Struct):
    """``{{ … }}``."""

    code: Code


class Branches(Struct):
    """``{% if … %}``: conditions with what is under them; the last may have none (``else``)."""

    found: list[tuple[Code | None, list[Node]]]


class Loop(Struct):
    """``{% for names in … if … %}``; ``otherwise`` replaces a loop without turns. The tree is that of a
    comprehension."""

    code: Code
    body: list[Node]
    otherwise: list[Node]


Node = Any
"""Text (a str), Value, Branches or Loop."""


class Parsed(Struct):
    nodes: tuple[Node, ...]
    problems: tuple[Problem, ...]


@lru_cache(maxsize=4096)
def tree_of(text: str) -> Parsed:
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

    __slots__ = ("_at", "_left", "_open", "_strip", "_text", "bodies", "problems")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._left = LONGEST_CODE
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
        text = f"{before}{body}{after}"
        self._left -= len(text)
        if self._left < 0:
            if self._left + len(text) >= 0:
                message = f"the templates of a text have at most {LONGEST_CODE:,} characters together"
                self._problem(message, start, end, "compute a part in a task and read its output")
            return None
        try:
            tree = parse(text).tree
        except ExpressionError as error:
            first, last = (max(0, min(each - len(before), len(body))) for each in (error.start, error.end))
            message = f"the template does not parse: {error.message}"
            code = "PLAN210" if error.code == "PLAN207" else error.code
            self._problem(message, start + first, start + max(first, last), error.help or _LITERAL, code)
            return None
        names = tuple(name for _, _, _, given in self._open for name in given)
        return Code(start - len(before), end, localized(tree, names) if names else tree, text)

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
    result = [place for sign in ("{{", "{%") if (place := text.find(sign, at)) >= 0]
    return min(result, default=-1)


def _end_of_block(text: str, at: int) -> int:
    for match in re.compile(rf"(?s){_STRING}|%\}}").finditer(text, at):
        if match[0] == "%}":
            return match.start()
    return -1


LONGEST_SOURCE = 1_048_576
"""Characters of one text with templates."""
LONGEST_CODE = 65_536
"""Characters of all templates of one text together."""
DEEPEST = 64
"""Levels of lists and maps with templates inside."""
MOST_TURNS = 100_000
"""Turns of all loops of one text together."""
MOST_STEPS = 1_000_000
"""Operations of all expressions of one text together."""


def references(text: str, start: int = 0) -> list[tuple[tuple[str, ...], int, int]]:
    """The names that the templates of a text read, with offsets (``start`` is added to them).

    ``{{ tasks.test.outputs.n + 1 }}`` gives ``(("tasks", "test", "outputs", "n"), 3, 23)``. Names that a loop of the
    text gives do not count.
    """
    if not is_template(text):
        return []
    return [
        (path, start + code.start + first, start + code.start + last)
        for code in codes(tree_of(text).nodes)
        for path, first, last in paths_with_places(code.tree)
    ]


def problems(text: str) -> list[Problem]:
    """What cannot be read in the templates of a text. Offsets count from the start of the text."""
    if not is_template(text):
        return []
    if len(text) > LONGEST_SOURCE:
        return [Problem("PLAN210", f"the text has more than {LONGEST_SOURCE:,} characters", 0, len(text))]
    return list(tree_of(text).problems)


def render(value: Json, scope: Scope) -> Json:
    """``value`` with every template in it rendered, inside lists and maps too; keys of maps stay as they are.

    A text that is one whole template gives the value itself with its type (a quantity as people write it); otherwise
    values become text: true, false and null as such, lists and maps as JSON. Raises TemplateError.
    """
    return _render(value, scope, 0)


def _render(value: Json, scope: Scope, level: int) -> Json:
    if isinstance(value, str):
        return render_text(value, scope) if is_template(value) else value
    if level > DEEPEST:
        raise TemplateError("the data with templates is nested too deeply")
    if isinstance(value, dict):
        return {key: _render(item, scope, level + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_render(item, scope, level + 1) for item in value]
    return value


def render_text(text: str, scope: Scope) -> Json:
    """The value of a text that is one whole template, else the rendered text. Raises TemplateError."""
    if len(text) > LONGEST_SOURCE:
        raise TemplateError(f"the text has more than {LONGEST_SOURCE:,} characters")
    tree = tree_of(text)
    if tree.problems:
        raise TemplateError(f"{tree.problems[0].message}, in {_excerpt(text)}")
    rendering = _Rendering(scope)
    try:
        if len(tree.nodes) == 1 and isinstance(tree.nodes[0], Value) and "{%" not in text:
            return plain(evaluated(tree.nodes[0].code.tree, rendering.run))
        rendering.write(tree.nodes)
    except EvaluationError as error:
        only = tree.nodes[0] if len(tree.nodes) == 1 else None
        is_path = isinstance(only, Value) and path_of(only.code.tree) is not None  # which the message names
        raise TemplateError(error.message if is_path else f"{error.message}, in {_excerpt(text)}") from error
    return "".join(rendering.parts)


class _Rendering:
    """One walk over the tree of a text, which counts turns, steps and characters."""

    __slots__ = ("_length", "_turns", "parts", "run")

    def __init__(self, scope: Scope) -> None:
        self.run = Evaluation(scope, MOST_STEPS)
        self.parts: list[str] = []
        self._turns = MOST_TURNS
        self._length = 0

    def write(self, nodes: tuple[Node, ...] | list[Node]) -> None:
        for node in nodes:
            if isinstance(node, str):
                self._add(node)
            elif isinstance(node, Value):
                self._add(text_of(evaluated(node.code.tree, self.run)))
            elif isinstance(node, Branches):
                self.write(next((body for code, body in node.found if code is None or holds(code.tree, self.run)), []))
            else:
                self._loop(node)

    def _add(self, text: str) -> None:
        self._length += len(text)
        if self._length > LONGEST_TEXT:
            raise TemplateError(f"the rendered text would have more than {LONGEST_TEXT:,} characters")
        self.parts.append(text)

    def _loop(self, node: Loop) -> None:
        _, _, _, names, source, _, condition = node.code.tree
        run, around = self.run, self.run.bound
        items = evaluated(source, run)
        if kind(items) != "list":
            hint = ": write `keys(…)` or `items(…)`" if kind(items) == "map" else ""
            raise EvaluationError(f"`{show(source)}` is {NAMES[kind(items)]}, not a list{hint}")
        kept = []
        for item in items:
            self._turns -= 1
            if self._turns < 0:
                raise EvaluationError(f"the loops of the template take more than {MOST_TURNS:,} turns")
            run.bound = {**around, **named(names, item)}
            if condition is None or holds(condition, run):
                kept.append(run.bound)
        for at, bound in enumerate(kept):
            run.bound = {**bound, "loop": _place(at, len(kept))}
            self.write(node.body)
        run.bound = around
        if not kept:
            self.write(node.otherwise)


def _place(at: int, length: int) -> dict[str, Json]:
    """What ``loop`` says in a turn."""
    return {
        "index": at + 1,
        "index0": at,
        "revindex": length - at,
        "revindex0": length - at - 1,
        "first": not at,
        "last": at + 1 == length,
        "length": length,
    }


LOOP = tuple(_place(0, 1))
"""The members of ``loop`` inside a loop of a template."""


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 80 else f"`{line[:79]}…`"
