"""Texts of a plan that are taken as they are written: a template in one of them is not filled in.

What is evaluated is what the other rules read: the expressions and the texts with templates of every view. Any other
text of the tree is literal.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.expressions.tree import Tree, children
from planrunner.plan.lower.branches import SPREAD
from planrunner.plan.rules.texts import bound_names, expressions_of, questions, texts_of
from planrunner.plan.rules.unused import IDLE, NOT_OBEYED
from planrunner.plan.rules.view import PlanView, find_text
from planrunner.plan.templated import is_template, templates
from planrunner.plan.templates import tree_of
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar

_WITHOUT_EFFECT = ("PLAN020", "PLAN021")
_BEGINS = r"\{\{[-+]?\s*(?:params|env|plan|run|tasks|item|carry)\b|\{%"
"""What begins a template of a plan even where the rest of it does not parse; templates of other programs, such as
``{{ .Name }}``, do not count."""

_PATTERNS = "a policy is fixed before the run starts: write the name or the pattern itself"
_NAME = "write the name itself"
_WORDS = "name the thing in words: what people read is the same in every run"
_WAYS = {
    "shell": "name the program itself; to choose one, write a task with a `when` for each",
    "default": "a default is a fixed value: put it together in the task that reads it, in `with`, `env` or `run`",
    "choices": "the choices of a parameter are fixed values",
    "judge": "these words are judged as they are written: check a value with an expression, as `check: …`",
    "expect": "words are judged as they are written: check a value with an expression, as `check: …`",
    "secrets": "write the id of the credential itself",
    "policy": _PATTERNS,
    "outputs": "only the `value` and the `path` of an output take templates",
    "artifacts": "only the `path` of an artifact takes templates",
    "recover": _WORDS,
    "retry": "write the failure classes themselves",
    "failure_modes": "write the name itself; `detect` takes an expression",
    "on_failure": _NAME,
    "on_success": _NAME,
    "next": "write the name itself; `when` of an edge takes an expression",
    "approvers": "write the users and roles themselves",
    "escalate": "write the users and roles themselves",
    "deadline": "write the time itself",
    "checkpoint": "write the patterns of the files themselves",
    "uses": "write the capability itself; to choose one, write a task with a `when` for each",
    "subplan": "write the name or the file of the subplan itself; `params` hands values over",
    **dict.fromkeys(("title", "description", "owner", "assumptions", "risks", "stakeholders"), _WORDS),
    **dict.fromkeys(("labels", "kind", "limits", "breakers"), _NAME),
}
_OTHERWISE = "write the text itself: it is the same in every run"

_ANY = "*"


class _Claims(Struct):
    """What is evaluated: texts by the id of their task (empty: of the plan) and their key, and the places of
    expressions."""

    texts: set[tuple[str, str, str]]
    places: list[tuple[int, int]]


class _Place(Struct):
    """Where a node stands: the keys that lead to it, and the ids of the tasks around it (empty: the plan; ``_ANY``: a
    task that is not named there)."""

    keys: tuple[str, ...] = ()
    ids: tuple[str, ...] = ("",)


def check(tree: Node, views: list[PlanView], said: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    """The texts of a plan whose templates nothing fills in. ``said`` are the findings of all other rules: what one of
    them refuses, or calls without effect, is not reported again."""
    refused = {each.span for each in said if each.severity == "error" or each.code in _WITHOUT_EFFECT}
    inside = sorted((each.start, each.end) for each in refused)
    claims = _claims(views)
    reported: set[Span] = set()
    for node, place, is_key in _texts(tree, _Place(), refused):
        if node.span in reported or _covers(node.span, inside) or (not is_key and _is_claimed(claims, node, place)):
            continue
        reported.add(node.span)
        yield _finding(views[0], node, place, is_key)
    for view in views:
        yield from _in_expressions(view)


def _in_expressions(view: PlanView) -> Iterator[Diagnostic]:
    """The texts inside expressions that say what a template would: an expression is not a template."""
    for site in expressions_of(view):
        for text in _constants(site.expression.tree):
            if (begun := re.search(_BEGINS, text)) is None:
                continue
            end = text.find("}", begun.start())
            part = text[begun.start() : end + 2 if end >= 0 else len(text)]
            yield Diagnostic(
                "PLAN212",
                f"`{part}` is taken literally: a text in an expression is not a template",
                find_text(view, part, site.expression.span),
                help='name the value itself, without braces and quotes; `~` joins texts: `"v" ~ params.version`',
            )


def _constants(tree: Tree) -> Iterator[str]:
    """The texts in an expression."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "const" and isinstance(node[3], str):
            yield node[3]
        waiting += children(node)


def _claims(views: list[PlanView]) -> _Claims:
    texts: set[tuple[str, str, str]] = set()
    places: set[tuple[int, int]] = set()
    for view in views:
        tasks = view.plan.tasks
        for text in texts_of(view):
            owner = "" if text.here < 0 or text.outside else tasks[text.here].id
            texts |= {(each, text.key, text.text.strip()) for each in (owner, _ANY)}
        for task in tasks:
            texts |= {(task.id, "outputs", f"artifacts.{name}") for name in bound_names(task)}
        for _, gate in view.plan.gated:
            texts |= {("", key, text.strip()) for key, value in questions(gate) for text in templates(value)}
        places |= {(site.expression.span.start, site.expression.span.end) for site in expressions_of(view)}
    return _Claims(texts, sorted(places))


def _is_claimed(claims: _Claims, node: Scalar, place: _Place) -> bool:
    text = str(node.value).strip()
    for written in (text, text.strip("{} ")):  # the output of a command is the result that it names
        if any((owner, key, written) in claims.texts for owner in place.ids for key in place.keys):
            return True
    return _covers(node.span, claims.places)


def _covers(outer: Span, inner: list[tuple[int, int]]) -> bool:
    """Whether one of the places, which are in order, lies within ``outer``."""
    index = bisect_left(inner, (outer.start, 0))
    while index < len(inner) and inner[index][0] <= outer.end:
        if inner[index][1] <= outer.end:
            return True
        index += 1
    return False


def _texts(node: Node, place: _Place, refused: set[Span]) -> Iterator[tuple[Scalar, _Place, bool]]:
    """The texts with templates of a tree, with their places; whether each is a key."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str) and _has_template(node.value):
            yield node, place, False
    elif node.span in refused:
        return
    elif isinstance(node, Mapping):
        if _lists_tasks(place.keys):
            name = node.get("id")
            place = _Place((), (*place.ids, str(name.value) if isinstance(name, Scalar) else _ANY))
        spread = SPREAD if node.get("branches") is not None else ()
        for key, value in node.entries:
            name_of_key = str(key.value)
            if name_of_key in spread:
                continue  # these are read as texts of the tasks that make the candidates
            if (key.span in refused and key.end > key.start) or _has_no_effect(place, name_of_key):
                continue
            if name_of_key == "params" and (linked := node.get("subplan")) is not None and linked.span in refused:
                continue
            if _has_template(name_of_key):
                yield key, place, True
            yield from _texts(value, _below(place, name_of_key), refused)
    else:
        for item in node.items:
            words = isinstance(item, Scalar) and _lists_tasks(place.keys)  # a task in plain words
            yield from _texts(item, _Place(("command",), (*place.ids, _ANY)) if words else place, refused)


def _lists_tasks(keys: tuple[str, ...]) -> bool:
    """Whether the items under these keys are tasks, or gates with the ids of tasks."""
    within = keys[2:] if keys[:1] == ("subplans",) else keys
    return within in _TASKS


def _is_subplan(keys: tuple[str, ...]) -> bool:
    """Whether what stands under these keys is one of the plan's ``subplans``."""
    return len(keys) == 2 and keys[0] == "subplans"


_TASKS = frozenset([("tasks",), ("finally",), ("gates",), ("subplan",), ("subplan", "tasks"), ("loop", "tasks")])


def _has_no_effect(place: _Place, key: str) -> bool:
    """Whether a key is reported as one that nothing looks at, whatever stands there."""
    if place.ids == ("",) and not place.keys:
        return key in IDLE
    return place.keys == ("policy",) and key in NOT_OBEYED


def _below(place: _Place, key: str) -> _Place:
    if place.keys[-1:] == ("services",) and len(place.ids) == 1:
        return _Place((), (*place.ids, key))
    if key == "defaults" and (not place.keys or _is_subplan(place.keys)):
        return _Place((*place.keys, key), (*place.ids, _ANY))
    return place._replace(keys=(*place.keys, key))


def _has_template(text: str) -> bool:
    """Whether a text would be another one if its templates were filled in."""
    if not is_template(text):
        return False
    read = tree_of(text)
    if read.problems:
        return re.search(_BEGINS, text) is not None
    return any(not isinstance(node, str) for node in read.nodes) or "".join(read.nodes) != text


def _finding(view: PlanView, node: Scalar, place: _Place, is_key: bool) -> Diagnostic:
    text = view.source.text[node.start : node.end]
    at = min((found for sign in ("{{", "{%") if (found := text.find(sign)) >= 0), default=0)
    end = text.find("}", at)
    part = text[at : end + 2 if end >= 0 else len(text)].partition("\n")[0]
    name = ".".join(place.keys)
    what = f"a key of `{name}`" if is_key else f"`{name}`"
    help_ = _NAME if is_key else next((_WAYS[key] for key in reversed(place.keys) if key in _WAYS), _OTHERWISE)
    message = f"{what} is taken literally: templates are not rendered here"
    return Diagnostic("PLAN212", message, find_text(view, part, node.span) if part else node.span, help=help_)
