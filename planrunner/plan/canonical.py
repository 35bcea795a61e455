"""One spelling for every key: aliases become canonical keys, in the tree, before anything is lowered or formatted.

Nodes are used again as they are; only mappings with an alias in them (or below them) are rebuilt, with the places of
the originals, so that comments found by their place stay where they were. A node that anchors share is rewritten once
and stays shared.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not

from planrunner.plan.keys import PLAN, TASK, Key, Part, aliases
from planrunner.plan.shapes import SHAPES
from planrunner.records import Struct
from planrunner.syntax.tree import Mapping, Node, Plain, Scalar, Sequence

PLAN_ORDER = tuple(row.name for row in PLAN.keys if not row.same)
TASK_ORDER = tuple(row.name for row in TASK.keys if not (row.same or row.only))
PLAN_ALIASES = aliases(PLAN.keys)
TASK_ALIASES = aliases(TASK.keys)
BUDGET_ALIASES = {row.name: row.same for row in SHAPES["budgets"].keys if row.same}

_Entry = tuple[Scalar, Node]
_Rewrite = Callable[["_Canon", Node], Node]


class _Kind(Struct):
    """What canonical means for one kind of mapping; ``touched`` are the keys of ``aliases`` and ``parts``: the others
    are left alone at once."""

    aliases: dict[str, str]
    rank: dict[str, int]
    parts: dict[str, _Rewrite]
    touched: frozenset[Plain]
    steps: str = ""
    """The key that `steps` stands for; empty where there is no such list."""


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
        return self._named(node, _Canon.subplan)

    def hypotheses(self, node: Node) -> Node:
        """A list of declarations and names, or a mapping from names to declarations and statements."""
        if isinstance(node, Sequence):
            return self._each(node, _Canon.hypothesis)
        return self._named(node, _Canon.hypothesis)

    def hypothesis(self, node: Node) -> Node:
        return self._mapping(node, _HYPOTHESIS)

    def services(self, node: Node) -> Node:
        return self._named(node, _Canon.service)

    def _named(self, node: Node, rewrite: _Rewrite) -> Node:
        """A mapping whose values are all of one kind."""
        names = [str(key.value) for key, _ in node.entries] if isinstance(node, Mapping) else []
        return self._mapping(node, _Kind({}, {}, dict.fromkeys(names, rewrite), frozenset(names)))

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
        number = value.value if isinstance(value, Scalar) else None
        if name is None or name in names or isinstance(number, str | bool | None) or number < 0:
            return key, value
        text = f"{number:.6f}".rstrip("0").rstrip(".") if isinstance(number, float) else str(number)
        text = f"{text}m" if name == "time" else f"${text}"  # a quantity has no exponent and no trailing zeros
        return _renamed(key, name), Scalar(text, value.start, value.end, text)

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
        if kind.steps and key.value == STEPS:
            return self._steps(node, entry, kind.steps)
        name = kind.aliases.get(str(key.value), "")
        fits = name != "env" or isinstance(value, Mapping)
        if name and fits and node.key(name) is None:
            first = next(other for other, _ in node.entries if kind.aliases.get(str(other.value)) == name)
            if first is key:  # of several aliases of one name only the first is renamed
                key = _renamed(key, name)
        rewrite = kind.parts.get(str(key.value))
        fresh = value if rewrite is None else self._shared(value, rewrite)
        return entry if key is entry[0] and fresh is value else (key, fresh)

    def _steps(self, node: Mapping, entry: _Entry, name: str) -> _Entry:
        """A list of steps as the tasks that they are; as it was written for the formatter, where it says an order."""
        key, value = entry
        in_order = follows(value)
        if node.key(name) is not None or (in_order and not self._keep_order):
            return key, self._shared(value, _Canon.tasks)
        return _renamed(key, name), self._shared(value, _Canon.followed if in_order else _Canon.tasks)

    def followed(self, node: Node) -> Node:
        return self.tasks(in_order(node)) if isinstance(node, Sequence) else node

    def _shared(self, node: Node, rewrite: _Rewrite) -> Node:
        if not node.anchor:
            return rewrite(self, node)
        key = (id(node), rewrite)
        if key not in self._done:
            self._done[key] = rewrite(self, node)
        return self._done[key]


STEPS = "steps"


def follows(node: Node) -> bool:
    """Whether a list of steps says an order: one of them is a command as text, or has no id."""
    items = node.items if isinstance(node, Sequence) else []
    return any(isinstance(item, Scalar) or (isinstance(item, Mapping) and item.key("id") is None) for item in items)


def in_order(node: Sequence) -> Sequence:
    """The tasks of a list of steps: numbered where they have no id, each waiting for the one before it, also where a
    condition skips that. One that says itself what it waits for, or that another leads to, stays aside."""
    steps = [_numbered(item, number) for number, item in enumerate(node.items, 1)]
    led_to = {name for step in steps if isinstance(step, Mapping) for name in _led_to(step)}
    items: list[Node] = []
    before: list[Mapping] = []
    """The last step that follows in order, and those after it that do not."""
    for step in steps:
        name = step.get("id") if isinstance(step, Mapping) else None
        called = isinstance(name, Scalar) and name.value in led_to
        if isinstance(step, Mapping) and not called and not _says(step, "needs", "join"):
            step, before = _behind(step, before), []
        items.append(step)
        if isinstance(step, Mapping) and not called:
            before.append(step)
    return Sequence(items, node.start, node.end, node.flow)


def _behind(step: Mapping, before: list[Mapping]) -> Mapping:
    at = step.start
    names = [name for each in before if isinstance(name := each.get("id"), Scalar)]
    ids: list[Node] = [Scalar(name.value, at, at, name.raw) for name in names]
    added: list[_Entry] = [(Scalar("needs", at, at, "needs"), Sequence(ids, at, at, flow=True))] if ids else []
    if any(_says(each, "when") for each in before):
        added.append((Scalar("join", at, at, "join"), Scalar("none_failed", at, at, "none_failed")))
    return _like(step, [*step.entries, *added]) if added else step


def _says(step: Mapping, *keys: str) -> bool:
    return any(TASK_ALIASES.get(str(key.value), key.value) in keys for key, _ in step.entries)


_LEADING = ("on_success", "on_failure", "next", "on_reject", "options", "failure_modes")


def _numbered(item: Node, number: int) -> Node:
    """A step with its id, whose place is that of the step."""
    if isinstance(item, Sequence) or (isinstance(item, Mapping) and item.key("id") is not None):
        return item
    name, start = f"step-{number}", item.start
    place: Node = item.entries[0][0] if isinstance(item, Mapping) and item.entries else item
    identity = (Scalar("id", start, start, "id"), Scalar(name, place.start, place.end, name))
    if isinstance(item, Mapping):
        return _like(item, [identity, *item.entries])
    return Mapping([identity, (Scalar("run", start, start, "run"), item)], start, item.end, True)


def _led_to(step: Mapping) -> list[str]:
    """The ids that edges of a step lead to; where the run goes back to a step, that still has its place."""
    waiting = [value for key, value in step.entries if key.value in _LEADING]
    found = []
    for node in waiting:
        if isinstance(node, Sequence):
            waiting += node.items
        elif isinstance(node, Mapping):
            waiting += [value for key, value in node.entries if key.value in ("to", "recover")]
        elif isinstance(node.value, str):
            found.append(node.value.strip())
    return found


def _kind(mapping: Key, without: tuple[Part, ...] = (), aliased: bool = True) -> _Kind:
    """The kind of mapping that has the keys of a row; parts ``without`` stay as they are."""
    keys = [row for row in mapping.keys if not row.same]
    others = aliases(tuple(keys)) if aliased else {}
    rewrites = {row.name: getattr(_Canon, row.inside) for row in keys if row.inside and row.inside not in without}
    rank = {row.name: number for number, row in enumerate(keys)}
    kind = _Kind(others, rank, rewrites, frozenset((*others, *rewrites)))
    name = next((row.same for row in mapping.keys if row.name == STEPS), "")
    if not name:
        return kind
    return kind._replace(touched=kind.touched | {STEPS}, rank={**rank, STEPS: rank[name]}, steps=name)


_EDGE = _kind(SHAPES["next_edge"])
_LOOP = _kind(SHAPES["loop"])
_ACTION = _kind(SHAPES["action"])
_ROLLBACK = _kind(SHAPES["rollback_policy"])
_HYPOTHESIS = _kind(SHAPES["hypothesis"])
_TASK = _kind(TASK)
_SERVICE = _kind(TASK, ("action", "budgets", "edges", "loop", "tasks"), aliased=False)._replace(steps="")
_PLAN = _kind(PLAN)
_SUBPLAN = _kind(PLAN, ("services", "subplans"), aliased=False)


def _renamed(key: Scalar, name: str) -> Scalar:
    """The key under its canonical name at the place of the alias."""
    return Scalar(name, key.start, key.end, name)


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


def _as_mapping(node: Node, tree: Mapping) -> Mapping:
    return node if isinstance(node, Mapping) else tree
