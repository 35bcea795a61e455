"""Templates: ``{{ … }}`` in the texts of a plan, rendered once, with values as data.

A plain reference such as ``{{ params.ref }}`` or ``{{ tasks.sign-off.outputs.n }}`` is resolved here. Anything else
is a Jinja expression, for which the sandbox in ``template_sandbox.py`` is loaded. What a value contains is never a
template.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planrunner.plan.expressions.evaluate import EvaluationError, Scope, evaluate
from planrunner.plan.expressions.problem import Problem, TemplateError
from planrunner.plan.expressions.values import LONGEST_TEXT, plain, text_of
from planrunner.record import NamedTuple

if TYPE_CHECKING:
    from planrunner.plan.placeholders import Placeholder

__all__ = ["TemplateError", "is_template", "problems", "references", "render"]

Json = Any
Tree = Any

LONGEST_SOURCE = 1_048_576
"""Characters of one text with templates."""
DEEPEST = 64
"""Levels of lists and maps with templates inside."""

_STEP = r"\.([A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:\"([^\"\\]*)\"|'([^'\\]*)'|(-?[0-9]{1,9}))\s*\]"
_ROOT = r"((?:tasks|artifacts)\.[A-Za-z_][A-Za-z0-9_-]*|[A-Za-z_][A-Za-z0-9_]*)"
_NO_NAMES = frozenset(["true", "false", "none", "True", "False", "None", "not"])


class _Compiled(NamedTuple):
    """Literal texts and trees of plain references in turn; ``engine``: some placeholder needs the template engine."""

    parts: tuple[str | Tree, ...]
    whole: bool
    engine: bool


def is_template(text: str) -> bool:
    """Whether anything in a text is to be rendered."""
    return "{{" in text or "{%" in text


def references(text: str, start: int = 0) -> list[tuple[tuple[str, ...], int, int]]:
    """The names that the templates of a text read, with offsets (``start`` is added to them).

    ``{{ tasks.test.outputs.n + 1 }}`` gives ``(("tasks", "test", "outputs", "n"), 3, 23)``.
    """
    if not is_template(text):
        return []
    from planrunner.plan import placeholders  # late: texts without templates need none of it

    return [(found.path, start + found.start, start + found.end) for found in placeholders.references(text)]


def problems(text: str) -> list[Problem]:
    """What is wrong with the templates of a text (PLAN210): syntax, unknown filters, constructs that are refused.

    Offsets count from the start of the text.
    """
    if not is_template(text):
        return []
    from planrunner.plan.placeholders import placeholders

    if len(text) > LONGEST_SOURCE:
        return [Problem("PLAN210", f"the text has more than {LONGEST_SOURCE:,} characters", 0, len(text))]
    if not _compiled(text).engine:
        return []
    open_ones = [found for found in placeholders(text) if not found.closed]
    if open_ones and "{%" not in text:
        at = open_ones[0].start
        return [Problem("PLAN210", "`{{` is never closed", at, at + 2, "for two braces as text write `{{ '{{' }}`")]
    from planrunner.plan.template_sandbox import faults  # late: plain references need no template engine

    return faults(text)


def render(value: Json, scope: Scope) -> Json:
    """``value`` with every template in it rendered, inside lists and maps too; keys of maps stay as they are.

    A text that is one whole template gives the value itself with its type (a quantity as people write it); otherwise
    values become text: true, false and null as such, lists and maps as JSON. Raises TemplateError.
    """
    return _render(value, scope, 0)


def _render(value: Json, scope: Scope, level: int) -> Json:
    if isinstance(value, str):
        return _render_text(value, scope) if is_template(value) else value
    if level > DEEPEST:
        raise TemplateError("the data with templates is nested too deeply")
    if isinstance(value, dict):
        return {key: _render(item, scope, level + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_render(item, scope, level + 1) for item in value]
    return value


def _render_text(text: str, scope: Scope) -> Json:
    if len(text) > LONGEST_SOURCE:
        raise TemplateError(f"the text has more than {LONGEST_SOURCE:,} characters")
    compiled = _compiled(text)
    if compiled.engine:
        from planrunner.plan.template_sandbox import render_text  # late: plain references need no template engine

        return render_text(text, scope)
    try:
        if compiled.whole:
            return plain(evaluate(compiled.parts[0], scope))
        return _joined([part if isinstance(part, str) else text_of(evaluate(part, scope)) for part in compiled.parts])
    except EvaluationError as error:
        raise TemplateError(error.message) from error


def _joined(parts: list[str]) -> str:
    if sum(map(len, parts)) > LONGEST_TEXT:
        raise TemplateError(f"the rendered text would have more than {LONGEST_TEXT:,} characters")
    return "".join(parts)


@lru_cache(maxsize=4096)
def _compiled(text: str) -> _Compiled:
    if "{%" in text:
        return _Compiled((), False, True)
    from planrunner.plan.placeholders import placeholders  # late: texts without templates need none of it

    parts: list[str | Tree] = []
    at = 0
    for found in placeholders(text):
        tree = _plain_reference(found)
        if tree is None:
            return _Compiled((), False, True)
        if found.start > at:
            parts.append(text[at : found.start])
        parts.append(tree)
        at = found.end
    if at < len(text):
        parts.append(text[at:])
    return _Compiled(tuple(parts), len(parts) == 1, False)


def _plain_reference(found: Placeholder) -> Tree | None:
    """The tree of a placeholder that is nothing but a name with members and literal indexes."""
    body = found.body.strip()
    root = re.match(_ROOT, body)
    if not found.closed or root is None or root[0] in _NO_NAMES:
        return None
    names = root[0].split(".")
    tree: Tree = ("name", 0, 0, names[0])
    if len(names) > 1:
        tree = ("attr", 0, 0, tree, names[1])
    at = root.end()
    while at < len(body):
        step = re.compile(_STEP).match(body, at)
        if step is None:
            return None
        member, double, single, number = step.groups()
        if member is not None:
            tree = ("attr", 0, 0, tree, member)
        else:
            key = int(number) if number is not None else double if double is not None else single
            tree = ("index", 0, 0, tree, ("const", 0, 0, key))
        at = step.end()
    return tree
