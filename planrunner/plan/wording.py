"""How the schema check speaks: one clause for each fault, the thing in backticks, what was expected, and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.expressions.quantities import meant_quantity
from planrunner.plan.keys import PLAN, TASK
from planrunner.plan.nearest import meant, nearest
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

_SHOWN = 8
"""More accepted values than this are not listed."""

_MEANT = {other: row.name for row in (*PLAN.keys, *TASK.keys) for other in row.meant.replace("~", "").split()}
"""What other tools call the keys of a plan."""

_OTHERWISE = frozenset(
    [other[1:] for row in (*PLAN.keys, *TASK.keys) for other in row.meant.split() if other.startswith("~")]
)
"""Those whose value means something else there, so that a new name alone does not mend them."""

_MEANT_WORDS = {
    other: ours
    for ours, others in {
        "int": "integer",
        "bool": "boolean",
        "string": "str text",
        "number": "float",
        "list": "array",
        "map": "object dict",
        "stop": "halt abort",
        "approval": "manual",
        "fixed": "constant",
        "fail": "error",
    }.items()
    for other in others.split()
}
"""What other tools call the values."""

_COLON = "`: ` makes a mapping of a line: put the whole line in quotes"
_SHAPES = {
    "`foreach`": "a list or an expression that gives one, such as `[a, b]` or `range(5)`",
    "`tasks`": "write each task as an item of a list: `- id: build`",
    "`subplan`": "write the list of tasks below it, or the name of a plan; commands in their order stand under `steps`",
    "`finally`": "its tasks stand below it, indented",
    "an item of `tasks`": "a task is a mapping: `- id: build`",
    "an item of `finally`": "a task has an `id`; one may hold commands: `- {id: tidy, steps: [echo done, rm scratch]}`",
    "the plan": "a plan is a mapping that begins with `plan: <name>`",
    "a criterion": _COLON,
    "an item of `expect`": _COLON,
    "an item of `checks`": _COLON,
    "an item of `done`": _COLON,
    "`gate`": "the question stands beside it, and so do who may decide and what they see: `gate: approval`, `ask: …`",
    "`schema`": "a mapping from names to types, such as `{summary: string}`",
    "`backoff`": "wait between attempts: `delay: 200ms`",
    "a value of `models`": "a model is a mapping: `{provider: openai, model: NAME}`",
}
"""The way out where the shape of a whole part is wrong."""

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a mapping",
}


def titled(title: str, name: str) -> str:
    """How a mapping is called: ``a task`` where its schema has a title, else the name of the place."""
    if not title or title == "plan":
        return name
    if title == name.strip("`"):
        return name
    if title.startswith(("a ", "an ")):
        return title
    return f"{'an' if title[0] in 'aeio' else 'a'} {title}"


def listed(words: tuple[Any, ...]) -> str:
    """``\\`a\\`, \\`b\\` or \\`c\\```."""
    quoted = [f"`{_shown(word)}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def meant_key(name: str, known: tuple[str, ...], owner: Mapping) -> str | None:
    """The key of ``known`` that was probably meant: by what other tools call it, or the nearest. The name of a plan
    without one is its ``plan``."""
    if name in ("name", "id") and "plan" in known and "title" in known and owner.get("plan") is None:
        return "plan"
    if name == "name" and "id" in known and "plan" not in known and owner.get("id") is None:
        return "id"
    meant = _MEANT.get(name, "")
    return meant if meant in known else nearest(name, known)


def inner_name(name: str) -> str:
    """What a key is called inside the mapping that it belongs under."""
    return _INNER.get(name, name)


_INNER = dict.fromkeys(("people", "reviewers", "assignees"), "users")


def unknown_key(
    title: str,
    key: Scalar,
    known: tuple[str, ...],
    owner: Mapping,
    under: tuple[str, ...] = (),
    takes: Callable[[str], bool] = lambda _: True,
) -> Diagnostic:
    """``under`` are the keys of ``known`` whose mappings have the key; ``takes`` says whether a key of ``known`` may
    have its value."""
    name = str(key.value)
    near = meant_key(name, known, owner)
    fits = near is not None and takes(near)
    section = under[0] if len(under) == 1 else ""
    if "approvers" in under and owner.get("gate") is not None:
        section, fits = "approvers", False  # those who decide, whatever other keys sound alike
    if not fits and section:
        near = None
    message = f"{title} has no key `{name}`" + meant(near)
    fix = None
    if near and fits and owner.key(near) is None and name not in _OTHERWISE:
        fix = Fix(
            f"rename `{name}` to `{near}`", (Edit(key.span, near if key.style == "" else _quoted(near, key.style)),)
        )
    shown = _SHAPES.get(title, "" if near or len(known) > _SHOWN or not known else f"it may have {listed(known)}")
    if not near and section:
        shown = f"it belongs under `{section}`: `{section}: {{{inner_name(name)}: …}}`"
    return Diagnostic("PLAN003", message, key.span, help=shown, fix=fix)


def missing(title: str, node: Node, name: str) -> Diagnostic:
    help_ = {"id": "give it an `id`, by which others refer to it", "plan": "begin the file with `plan: <name>`"}.get(
        name, ""
    )
    fix, key = None, node.key("name") if name == "id" and isinstance(node, Mapping) else None
    value = node.get("name") if isinstance(node, Mapping) else None
    if key is not None and isinstance(value, Scalar) and re.fullmatch(_ID, str(value.value)):  # as in other tools
        fix = Fix("rename `name` to `id`", (Edit(key.span, "id" if key.style == "" else _quoted("id", key.style)),))
    return Diagnostic("PLAN004", f"{title} needs the key `{name}`", _head(node), help=help_, fix=fix)


_ID = r"[A-Za-z_][A-Za-z0-9_-]*"


def wrong_type(name: str, node: Node, types: tuple[str, ...]) -> Diagnostic:
    *others, last = [_TYPES[each] for each in types]
    wanted = f"{', '.join(others)} or {last}" if others else last
    message = f"{name} must be {wanted}, not {described(node)}"
    help_ = _SHAPES.get(name, "")
    return Diagnostic("PLAN005", message, node.span, help=help_, fix=_retyped(name, node, types))


def meant_word(word: str, known: Collection[str], most: int = 1 << 30) -> str | None:
    """The word of ``known`` that was probably meant: what other tools call it, or the nearest by at most ``most``
    edits."""
    meant = _MEANT_WORDS.get(word)
    return meant if meant in known else nearest(word, known, most)


def not_among(name: str, node: Node, words: tuple[Any, ...]) -> Diagnostic:
    value = _shown(node.value if isinstance(node, Scalar) else None)
    near = meant_word(value, [word for word in words if isinstance(word, str)])
    help_ = _SHAPES.get(name, "") if len(words) <= _SHOWN else f"it knows {listed(words)}"
    if len(words) <= _SHOWN:
        message = f"{name} must be {listed(words)}, not `{_short(value)}`"
    else:
        message = f"{name} does not know `{_short(value)}`"
    if near:
        message += f", did you mean `{near}`?"
        quote = node.style if isinstance(node, Scalar) and node.style in ("'", '"') else ""
        fix = Fix(f"write `{near}`", (Edit(node.span, _quoted(near, quote)),))
        return Diagnostic("PLAN006", message, node.span, help=help_, fix=fix)
    return Diagnostic("PLAN006", message, node.span, help=help_)


def not_matching(name: str, node: Node, pattern: str, expected: str) -> Diagnostic:
    value = _shown(node.value if isinstance(node, Scalar) else None)
    message = f"{name} cannot be `{_short(value)}`"
    near = meant_quantity(value)
    if near is None or re.search(pattern, near) is None:
        return Diagnostic("PLAN006", message, node.span, help=expected)
    quote = node.style if isinstance(node, Scalar) and node.style in ("'", '"') else ""
    fix = Fix(f"write `{near}`", (Edit(node.span, _quoted(near, quote)),))
    return Diagnostic("PLAN006", f"{message}, did you mean `{near}`?", node.span, help=expected, fix=fix)


def out_of_range(name: str, node: Node, limit: str) -> Diagnostic:
    value = _shown(node.value if isinstance(node, Scalar) else None)
    return Diagnostic("PLAN006", f"{name} must be {limit}, not `{_short(value)}`", node.span)


def too_few(name: str, node: Node, least: int, what: str) -> Diagnostic:
    return Diagnostic("PLAN006", f"{name} needs at least {least} {what}{'' if least == 1 else 's'}", _head(node))


def twice(name: str, node: Node) -> Diagnostic:
    return Diagnostic("PLAN006", f"{name} has an item twice", _head(node))


def too_many(title: str, node: Node, most: int, what: str) -> Diagnostic:
    return Diagnostic("PLAN006", f"{title} has at most {most} {what}{'' if most == 1 else 's'}", _head(node))


def makes_a_gate(what: str, place: Span, action: str, label: Span) -> Diagnostic:
    """Something (``what``) makes a gate of a task that says what it does."""
    help_ = f"put `{action}` into a task of its own, before or after the gate"
    message = f"{what} makes the task a gate, and a gate does nothing itself"
    return Diagnostic("PLAN009", message, place, labels=(Label(label, f"`{action}` stands here"),), help=help_)


def conflict(node: Node, first: str, second: str) -> Diagnostic:
    """Two keys that exclude each other; the later one in the text is marked, the other one labelled."""
    assert isinstance(node, Mapping)
    given = [(key, str(key.value)) for key, _ in node.entries if key.value in (first, second)]
    (early, early_name), (late, late_name) = sorted(given, key=lambda pair: pair[0].start)[:2]
    return Diagnostic(
        "PLAN009",
        f"`{late_name}` and `{early_name}` exclude each other, keep one",
        late.span,
        labels=(Label(early.span, f"`{early_name}` stands here"),),
    )


def described(node: Node) -> str:
    """A value of the wrong type in words: ``a list``, ``the number 3``."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    value = node.value
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{_shown(value)}`"
    return f"the number {_short(_shown(value))}" if isinstance(value, int | float) else f"the text `{_short(value)}`"


_EXPRESSIONS = ("foreach", "matrix", "options", "when", "until", "detect", "needs", "join")
"""Keys whose text is an expression or a name: a number in quotes is neither."""


def _retyped(name: str, node: Node, types: tuple[str, ...]) -> Fix | None:
    """A plain scalar that only lacks quotes, or a single item that only lacks its list. Beside a truth value or
    a whole number the text is that of a template."""
    if not isinstance(node, Scalar) or node.style or node.value is None or not node.raw:
        return None
    if (
        "string" in types
        and not {"boolean", "integer"} & {*types}
        and not any(f"`{key}`" in name for key in _EXPRESSIONS)
    ):
        return Fix("put it in quotes", (Edit(node.span, f'"{node.raw}"'),))
    if types == ("array",) and isinstance(node.value, str):
        return Fix("make it a list", (Edit(node.span, f"[{node.raw}]"),)) if not set(node.raw) & set(",[]{}#") else None
    return None


def _head(node: Node) -> Span:
    """The first key of a mapping: underlining a whole block would hide where it begins."""
    if isinstance(node, Mapping) and node.entries:
        return min(key.span for key, _ in node.entries)
    return node.span


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else str(value)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def _quoted(text: str, style: str) -> str:
    return f"{style}{text}{style}" if style in ("'", '"') else text
