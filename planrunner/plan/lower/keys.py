"""How the keys of a task are read: into a draft, to a field of the task, to the notes, or kept for what takes several
keys to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from planrunner.plan.commands.statements import only_calls
from planrunner.plan.keys import TASK
from planrunner.plan.lower import actions, declarations, flow, values
from planrunner.plan.lower.values import FACTS, OUTCOME, Lowering, condition
from planrunner.plan.model import Computed, Edge, EffectClass, OnDoubt, Role
from planrunner.source import NOWHERE, Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

PRIORITIES = {"low": -10, "normal": 0, "high": 10, "critical": 20}
CRITERIA = {"expect": OUTCOME, "postconditions": OUTCOME, "preconditions": FACTS}
"""Keys that hold criteria, and the names that those may use."""

_new = tuple.__new__
"""Makes a NamedTuple in half the time of its constructor, which counts where every key of every task gets one."""


class Draft:
    """A task while its keys are read. ``nodes`` keeps values that only make sense together: gate, fan-out, criteria."""

    __slots__ = ("defaults", "edges", "family", "fields", "identity", "low", "nodes", "notes", "spans")

    def __init__(self, low: Lowering, defaults: dict[str, Any]) -> None:
        self.low = low
        self.defaults = defaults
        self.fields: dict[str, Any] = dict(defaults)
        self.identity: Node | None = None
        self.family = ""
        """The family of capabilities that the calls of ``run`` belong to."""
        self.nodes: dict[str, Node] = {}
        self.notes: dict[str, Any] = {}
        self.edges: dict[str, list[Edge]] = {}
        self.spans: list[tuple[str, Span]] = []

    def read(self, entries: Iterable[tuple[Scalar, Node]]) -> None:
        for key, value in entries:
            name: Any = key.value
            self.spans.append((name, _new(Span, (key.start, key.end))))
            read = _BY_NAME.get(name)
            if read is not None:
                read(self, name, value)

    @staticmethod
    def known() -> tuple[str, ...]:
        """The keys that a task has."""
        return tuple(_BY_NAME)

    def span(self, *names: str) -> Span:
        """The place of the first of the keys that the task has."""
        return next((span for name in names for key, span in self.spans if key == name), NOWHERE)


def _identity(draft: Draft, _: str, node: Node) -> None:
    draft.identity = node


def _text(draft: Draft, field: str, node: Node) -> None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        draft.fields[field] = node.value.strip()


def _plain_text(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = values.plain_text(node)


def _data(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = values.data(node)


def _flag(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = bool(values.truth(node))


def _texts(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = values.texts(node)


_WORDS = {
    "role": get_args(Role),
    "stdout": ("text", "json", "lines"),
    "effect": get_args(EffectClass),
    "on_doubt": get_args(OnDoubt)[1:],
}


def _word(draft: Draft, field: str, node: Node) -> None:
    """One of a few words; the schema has reported any other."""
    word = values.text(node)
    if word in _WORDS[field]:
        draft.fields[field] = word


def _note(draft: Draft, key: str, node: Node) -> None:
    """For people; the machine does not read it."""
    draft.notes[key] = values.data(node)


def _together(draft: Draft, key: str, node: Node) -> None:
    """Kept until the keys that it depends on are known."""
    draft.nodes[key] = node


def _validation(draft: Draft, key: str, node: Node) -> None:
    (_note if isinstance(node, Mapping) else _together)(draft, key, node)


def _command(draft: Draft, field: str, node: Node) -> None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        draft.fields[field] = node.value.strip()
        draft.nodes[field] = node


def _deadline(draft: Draft, key: str, node: Node) -> None:
    """Kept as people read it, too."""
    draft.notes[key] = values.data(node)
    draft.fields["due_in"] = declarations.deadline(draft.low, node)
    draft.fields["due"] = declarations.due(node)


def _run(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = script = actions.script(node)
    if isinstance(script, str) and only_calls(script):
        draft.nodes[field] = node
    if script and any("\0" in part for part in ([script] if isinstance(script, str) else script)):
        draft.low.report("PLAN006", "a command cannot contain the character NUL", node.span, "take `\\0` out")


def _priority(draft: Draft, field: str, node: Node) -> None:
    number = values.whole(node)
    draft.fields[field] = PRIORITIES.get(values.text(node), 0) if number is None else number


def _labels(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = tuple(dict.fromkeys((*draft.defaults.get(field, ()), *values.texts(node))))


def _env(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = tuple({**dict(draft.defaults.get(field, ())), **dict(values.pairs(node))}.items())


def _checkpoint(draft: Draft, field: str, node: Node) -> None:
    """``true``, ``false`` or the patterns of what is kept."""
    paths = node.get("paths") if isinstance(node, Mapping) else None
    if paths is not None:
        draft.fields[field] = actions.kept_paths(draft.low, paths)
    else:
        wanted = isinstance(node, Mapping) or bool(values.truth(node))
        draft.fields[field] = () if wanted else None


def _fresh(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = actions.fresh(draft.low, node)
    draft.fields["renewed"] = values.text(node) == "never"


def _ready(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = values.text(node)
    draft.fields.setdefault("effect", "idempotent")  # it ends with its runner, and the next one starts it


def _delay(draft: Draft, field: str, node: Node) -> None:
    if not computes(draft, field, node):
        draft.fields[field] = values.duration(draft.low, node)


def computes(draft: Draft, name: str, node: Node) -> bool:
    """Whether a setting is a template, which the run evaluates when the task starts; it replaces a default."""
    said = isinstance(node, Scalar) and isinstance(node.value, str) and "{{" in node.value
    others = tuple(each for each in draft.fields.get("computed", ()) if each.name != name)
    expression = condition(draft.low, node) if said else None
    if expression is not None:
        others = (*others, Computed(name, expression))
    if others or "computed" in draft.fields:
        draft.fields["computed"] = others
    return said


def _condition(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = condition(draft.low, node)


def _needs(draft: Draft, field: str, node: Node) -> None:
    """A list of ids at once; text may be an expression, which is a join as well."""
    if isinstance(node, Sequence):
        draft.fields[field] = flow.listed(node)
    else:
        draft.nodes[field] = node


def _outputs(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = declarations.outputs(draft.low, node)
    declarations.check_types(draft.low, node)


def _artifacts(draft: Draft, field: str, node: Node) -> None:
    draft.fields[field] = declarations.artifacts(node)
    declarations.check_retention(draft.low, node)
    declarations.check_places(draft.low, node)


def _edges(draft: Draft, key: str, node: Node) -> None:
    if key == "next":
        draft.edges[key] = flow.next_edges(draft.low, node)
    else:
        draft.edges[key] = flow.edges(draft.low, node, "success" if key == "on_success" else "failure")


_READERS: dict[str, Callable[[Draft, str, Node], None]] = {
    "artifacts": _artifacts,
    "checkpoint": _checkpoint,
    "command": _command,
    "condition": _condition,
    "data": _data,
    "deadline": _deadline,
    "delay": _delay,
    "edges": _edges,
    "env": _env,
    "flag": _flag,
    "fresh": _fresh,
    "identity": _identity,
    "inputs": lambda draft, _, node: _data(draft, "inputs", node),
    "labels": _labels,
    "needs": _needs,
    "note": _note,
    "outputs": _outputs,
    "plain_text": _plain_text,
    "priority": _priority,
    "ready": _ready,
    "run": _run,
    "text": _text,
    "texts": _texts,
    "validation": _validation,
    "word": _word,
}
"""What each word under ``read`` of the table of keys does; any other names keys that are read ``_together``."""

_BY_NAME = {row.name: _READERS.get(row.read, _together) for row in TASK.keys if not row.same}
