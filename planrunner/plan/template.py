"""Templates: ``{{ … }}``, ``{% if … %}`` and ``{% for … %}`` in texts, rendered once, with values as data.

What stands inside is an expression of the plan language, evaluated as anywhere else. A plain reference such as
``{{ params.ref }}`` or ``{{ tasks.sign-off.outputs.n }}`` is read here and needs no grammar. What a value contains is
never a template.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planrunner.plan.expressions.evaluate import Evaluation, EvaluationError, Scope, evaluated, holds, named
from planrunner.plan.expressions.paths import path_of, paths_with_places
from planrunner.plan.expressions.problem import Problem, TemplateError
from planrunner.plan.expressions.show import show
from planrunner.plan.expressions.values import LONGEST_TEXT, NAMES, kind, plain, text_of
from planrunner.plan.placeholders import Placeholder, placeholders

if TYPE_CHECKING:
    from planrunner.plan.template_tree import Loop, Node, Parsed


__all__ = ["TemplateError", "is_template", "problems", "references", "render", "tree_of"]

Json = Any
Tree = Any

LONGEST_SOURCE = 1_048_576
"""Characters of one text with templates."""
LONGEST_COMPUTED = 65_536
"""Characters of one text whose templates are more than plain references."""
DEEPEST = 64
"""Levels of lists and maps with templates inside."""
MOST_TURNS = 100_000
"""Turns of all loops of one text together."""
MOST_STEPS = 1_000_000
"""Operations of all expressions of one text together."""

_STEP = r"\.([A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:\"([^\"\\]*)\"|'([^'\\]*)'|(-?[0-9]{1,9}))\s*\]"
_ROOT = r"((?:tasks|artifacts)\.[A-Za-z_][A-Za-z0-9_-]*|[A-Za-z_][A-Za-z0-9_]*)"
_NO_NAMES = frozenset(
    ["true", "false", "null", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else"]
)


def is_template(text: str) -> bool:
    """Whether anything in a text is to be rendered."""
    return "{{" in text or "{%" in text


def references(text: str, start: int = 0) -> list[tuple[tuple[str, ...], int, int]]:
    """The names that the templates of a text read, with offsets (``start`` is added to them).

    ``{{ tasks.test.outputs.n + 1 }}`` gives ``(("tasks", "test", "outputs", "n"), 3, 23)``. Names that a loop of the
    text gives are none.
    """
    if not is_template(text):
        return []
    from planrunner.plan.template_tree import codes

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


@lru_cache(maxsize=4096)
def tree_of(text: str) -> Parsed:
    """The tree of a text with templates; plain references are read without the grammar."""
    from planrunner.plan.template_tree import Parsed, parsed

    if "{%" not in text and (found := _plain_references(text)) is not None:
        return Parsed(tuple(found), ())
    if len(text) > LONGEST_COMPUTED:
        message = f"a text with templates that are more than names has at most {LONGEST_COMPUTED:,} characters"
        return Parsed((), (Problem("PLAN210", message, 0, len(text)),))
    return parsed(text)


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
    from planrunner.plan.template_tree import Value

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
        from planrunner.plan.template_tree import Branches, Value

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


def _plain_references(text: str) -> list[Node] | None:
    """The nodes of a text whose templates are plain references; None for any other."""
    found: list[Node] = []
    at = 0
    from planrunner.plan.template_tree import Code, Value

    for hole in placeholders(text):
        tree = _plain_reference(hole)
        if tree is None:
            return None
        if hole.start > at:
            found.append(text[at : hole.start])
        found.append(Value(Code(hole.start + 2, hole.end - 2, tree)))
        at = hole.end
    if at < len(text):
        found.append(text[at:])
    return found


def _plain_reference(found: Placeholder) -> Tree | None:
    """The tree of a placeholder that is nothing but a name with members and literal indexes."""
    body = found.body.rstrip()
    start = len(body) - len(body.lstrip())
    root = re.compile(_ROOT).match(body, start)
    if not found.closed or root is None or root[0] in _NO_NAMES:
        return None
    names = root[0].split(".")
    tree: Tree = ("name", start, start + len(names[0]), names[0])
    if len(names) > 1:
        tree = ("attr", start, root.end(), tree, names[1])
    at = root.end()
    while at < len(body):
        step = re.compile(_STEP).match(body, at)
        if step is None:
            return None
        member, double, single, number = step.groups()
        if member is not None:
            tree = ("attr", start, step.end(), tree, member)
        else:
            key = int(number) if number is not None else double if double is not None else single
            tree = ("index", start, step.end(), tree, ("const", at + 1, step.end() - 1, key))
        at = step.end()
    return tree
