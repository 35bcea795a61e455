"""One spelling for every key: aliases become canonical keys, in the tree, before anything is lowered or formatted.

Nodes are used again as they are; only mappings with an alias in them (or below them) are rebuilt, with the places of
the originals, so that comments found by their place stay where they were. A node that anchors share is rewritten once
and stays shared.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import NamedTuple

from planrunner.syntax.tree import Mapping, Node, Plain, Scalar, Sequence

PLAN_ALIASES = {
    "plan_id": "plan",
    "id": "plan",
    "definition_of_done": "done",
    "budget": "budgets",
    "policies": "policy",
    "nodes": "tasks",
    "steps": "tasks",
}
TASK_ALIASES = {
    "name": "title",
    "using": "uses",
    "inputs": "with",
    "input": "with",
    "depends_on": "needs",
    "dependsOn": "needs",
    "if": "when",
    "success_criteria": "expect",
    "criteria": "expect",
    "continue_on_failure": "allow_failure",
    "continue_on_error": "allow_failure",
    "budget": "budgets",
    "environment": "env",
}
BUDGET_ALIASES = {"timeMin": "time", "costUSD": "cost"}

PLAN_ORDER = (
    *(
        "plan",
        "title",
        "description",
        "owner",
        "version",
        "created_at",
        "state",
        "stakeholders",
        "labels",
        "deadline",
        "done",
    ),
    *("params", "budgets", "policy", "defaults", "env", "max_parallel", "limits", "seed", "on_failure"),
    *("rollback", "breakers"),
    *("memory", "hypotheses", "outputs", "artifacts", "gates", "services", "tasks", "finally", "subplans"),
)
TASK_ORDER = (
    *("id", "title", "description", "kind", "role", "status", "priority", "owner", "labels", "deadline"),
    *("needs", "join", "when", "assumptions", "risks", "capabilities", "preconditions"),
    *("foreach", "matrix", "as", "max_parallel", "max_items", "tolerate", "delay"),
    *("uses", "with", "run", "command", "loop", "subplan", "params"),
    *("gate", "ask", "checks", "options", "form", "approvers", "expires", "on_expiry"),
    *("escalate", "on_reject"),
    *(
        "cwd",
        "shell",
        "env",
        "secrets",
        "environment",
        "stdin",
        "stdout",
        "timeout",
        "timebox",
        "heartbeat",
        "watchdog",
    ),
    *("retry", "on_doubt", "allow_failure", "fresh"),
    *(
        "budgets",
        "optional",
        "degraded",
        "policy",
        "effect",
        "effects",
        "expect",
        "postconditions",
        "validation",
        "failure_modes",
    ),
    *("outputs", "artifacts", "evidence", "checkpoint", "backup", "rollback", "irreversible"),
    *("on_success", "on_failure", "next", "ends_plan"),
)

SERVICE_ORDER = tuple("title description needs when run cwd shell env secrets stdin ready timeout retry policy".split())

_Entry = tuple[Scalar, Node]
_Rewrite = Callable[["_Canon", Node], Node]


class _Kind(NamedTuple):
    """What canonical means for one kind of mapping; ``touched`` are the keys of ``aliases`` and ``parts``: the others
    are left alone at once."""

    aliases: dict[str, str]
    rank: dict[str, int]
    parts: dict[str, _Rewrite]
    touched: frozenset[Plain]


def canonical(tree: Mapping) -> Mapping:
    """The plan with canonical keys in the order of the text. Where an alias and its key are both there, both are kept:
    the schema check reports them."""
    return _as_mapping(_Canon(keep_order=True).plan(tree), tree)


def ordered(tree: Mapping) -> Mapping:
    """The plan with canonical keys in canonical order, as the formatter writes it; keys it does not know come last."""
    return _as_mapping(_Canon(keep_order=False).plan(tree), tree)


class _Canon:
    """One pass over one tree. ``_done`` holds what became of each shared node, by the node and what it is read as."""

    __slots__ = ("_done", "_keep_order")

    def __init__(self, keep_order: bool) -> None:
        self._keep_order = keep_order
        self._done: dict[tuple[int, _Rewrite], Node] = {}

    def plan(self, node: Node) -> Node:
        return self._mapping(node, _PLAN)

    def task(self, node: Node) -> Node:
        return self._mapping(node, _TASK)

    def tasks(self, node: Node) -> Node:
        return self._each(node, _Canon.task)

    def edges(self, node: Node) -> Node:
        """Where a task leads to: only the order of keys has a canonical form."""
        if self._keep_order:
            return node
        return self._each(node, _Canon.edge) if isinstance(node, Sequence) else self.edge(node)

    def edge(self, node: Node) -> Node:
        return self._mapping(node, _EDGE)

    def _each(self, node: Node, rewrite: _Rewrite) -> Node:
        if not isinstance(node, Sequence):
            return node
        items = [self._shared(item, rewrite) for item in node.items]
        if all(new is old for new, old in zip(items, node.items, strict=True)):
            return node
        fresh = Sequence(items, node.start, node.end, node.flow)
        fresh.anchor = node.anchor
        return fresh

    def loop(self, node: Node) -> Node:
        return self._mapping(node, _LOOP)

    def action(self, node: Node) -> Node:
        return self._mapping(node, _ACTION)

    def rollback(self, node: Node) -> Node:
        return self._mapping(node, _ROLLBACK)

    def subplans(self, node: Node) -> Node:
        names = [str(key.value) for key, _ in node.entries] if isinstance(node, Mapping) else []
        return self._mapping(node, _Kind({}, {}, dict.fromkeys(names, _Canon.subplan), frozenset(names)))

    def services(self, node: Node) -> Node:
        names = [str(key.value) for key, _ in node.entries] if isinstance(node, Mapping) else []
        return self._mapping(node, _Kind({}, {}, dict.fromkeys(names, _Canon.service), frozenset(names)))

    def service(self, node: Node) -> Node:
        return self._mapping(node, _SERVICE)

    def subplan(self, node: Node) -> Node:
        return self._mapping(node, _SUBPLAN)

    def digits(self, node: Node) -> Node:
        """Numbers that are used as text (``env``, arguments, ``version``) as the text that was written: JSON would
        make ``3.10`` a ``3.1``."""
        if isinstance(node, Scalar):
            return _spelled(node)
        if isinstance(node, Sequence):
            items = [_spelled(item) for item in node.items]
            if all(new is old for new, old in zip(items, node.items, strict=True)):
                return node
            fresh = Sequence(items, node.start, node.end, node.flow)
            fresh.anchor = node.anchor
            return fresh
        if all(_spelled(value) is value for _, value in node.entries):
            return node
        return _like(node, [(key, _spelled(value)) for key, value in node.entries])

    def budgets(self, node: Node) -> Node:
        if not isinstance(node, Mapping) or not any(key.value in BUDGET_ALIASES for key, _ in node.entries):
            return node
        names = {key.value for key, _ in node.entries}
        entries = [self._budget(key, value, names) for key, value in node.entries]
        return _like(node, entries)

    def _budget(self, key: Scalar, value: Node, names: set[Plain]) -> tuple[Scalar, Node]:
        name = BUDGET_ALIASES.get(str(key.value))
        if name is None or name in names or not _is_number(value):
            return key, value
        text = _digits(value)
        return _renamed(key, name), _rewritten(value, f"{text}m" if name == "time" else f"${text}")

    def _mapping(self, node: Node, kind: _Kind) -> Node:
        """A mapping with its keys renamed and its parts rewritten: the node itself where nothing changes."""
        if not isinstance(node, Mapping):
            return node
        touched, entries = kind.touched, node.entries
        for at, entry in enumerate(node.entries):
            if entry[0].value in touched:
                fresh = self._entry(node, entry, kind)
                if fresh is not entry:
                    entries = entries if entries is not node.entries else list(entries)
                    entries[at] = fresh
        if not self._keep_order:
            entries = list(entries)
            last = len(kind.rank)
            entries.sort(key=lambda entry: kind.rank.get(str(entry[0].value), last))
            changed = any(map(is_not, entries, node.entries))
            return _like(node, entries) if changed else node
        return node if entries is node.entries else _like(node, entries)

    def _entry(self, node: Mapping, entry: _Entry, kind: _Kind) -> _Entry:
        key, value = entry
        name = kind.aliases.get(str(key.value), "")
        fits = name != "env" or isinstance(value, Mapping)
        if name and fits and node.key(name) is None and _first(node, key, name, kind.aliases):
            key = _renamed(key, name)
        rewrite = kind.parts.get(str(key.value))
        fresh = value if rewrite is None else self._shared(value, rewrite)
        return entry if key is entry[0] and fresh is value else (key, fresh)

    def _shared(self, node: Node, rewrite: _Rewrite) -> Node:
        if not node.anchor:
            return rewrite(self, node)
        key = (id(node), rewrite)
        if key not in self._done:
            self._done[key] = rewrite(self, node)
        return self._done[key]


def _kind(aliases: dict[str, str], order: tuple[str, ...], parts: dict[str, _Rewrite]) -> _Kind:
    rank = {key: number for number, key in enumerate(order)}
    return _Kind(aliases, rank, parts, frozenset((*aliases, *parts)))


_EDGE = _kind({}, ("on", "to", "rework", "max", "when", "else", "recovers"), {})
_LOOP = _kind({}, ("max", "until", "at_bound", "carry", "breaker", "checkpoint", "tasks"), {"tasks": _Canon.tasks})
_ACTION = _kind({}, ("uses", "with", "run", "retry", "timeout"), {"run": _Canon.digits})
_ROLLBACK = _kind({}, ("mode", "only", "budgets"), {"budgets": _Canon.budgets})
_SUBPLAN = _kind(
    {},
    PLAN_ORDER,
    {
        "tasks": _Canon.tasks,
        "finally": _Canon.tasks,
        "defaults": _Canon.task,
        "budgets": _Canon.budgets,
        "rollback": _Canon.rollback,
        "env": _Canon.digits,
    },
)
_TASK = _kind(
    TASK_ALIASES,
    TASK_ORDER,
    {
        "budgets": _Canon.budgets,
        "loop": _Canon.loop,
        "subplan": _Canon.tasks,
        "rollback": _Canon.action,
        "degraded": _Canon.action,
        "on_success": _Canon.edges,
        "on_failure": _Canon.edges,
        "next": _Canon.edges,
        "env": _Canon.digits,
        "run": _Canon.digits,
        "stdin": _Canon.digits,
    },
)
_SERVICE = _kind({}, SERVICE_ORDER, {"env": _Canon.digits, "run": _Canon.digits, "stdin": _Canon.digits})
_PLAN = _kind(
    PLAN_ALIASES,
    PLAN_ORDER,
    {
        "budgets": _Canon.budgets,
        "tasks": _Canon.tasks,
        "services": _Canon.services,
        "finally": _Canon.tasks,
        "subplans": _Canon.subplans,
        "rollback": _Canon.rollback,
        "defaults": _Canon.task,
        "env": _Canon.digits,
        "version": _Canon.digits,
    },
)


def _first(node: Mapping, key: Scalar, name: str, aliases: dict[str, str]) -> bool:
    """Whether a key is the first of several aliases of one name: only that one is renamed."""
    return next(other for other, _ in node.entries if aliases.get(str(other.value)) == name) is key


def _renamed(key: Scalar, name: str) -> Scalar:
    """The key under its canonical name at the place of the alias."""
    return Scalar(name, key.start, key.end, name)


def _rewritten(value: Node, text: str) -> Scalar:
    return Scalar(text, value.start, value.end, text)


def _spelled(node: Node) -> Node:
    """A number whose spelling JSON would not keep becomes the text of its spelling."""
    if not isinstance(node, Scalar) or isinstance(node.value, str | bool | None) or node.raw in ("", str(node.value)):
        return node
    return Scalar(node.raw, node.start, node.end, node.raw)


def _like(node: Mapping, entries: list[tuple[Scalar, Node]]) -> Mapping:
    fresh = Mapping(entries, node.start, node.end, node.flow)
    fresh.anchor = node.anchor
    fresh.merged = node.merged
    return fresh


def _is_number(node: Node) -> bool:
    if not isinstance(node, Scalar) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float) and node.value >= 0


def _digits(node: Node) -> str:
    """A number as a quantity writes it: no exponent, no trailing zeros."""
    value = node.value if isinstance(node, Scalar) else 0
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _as_mapping(node: Node, tree: Mapping) -> Mapping:
    return node if isinstance(node, Mapping) else tree
