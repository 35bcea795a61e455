"""The keys of one task, read one by one into a draft: to its fields, to the notes, or kept for what needs others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from planrunner.plan.commands.statements import only_calls
from planrunner.plan.lower import actions as actions
from planrunner.plan.lower import declarations as parts
from planrunner.plan.lower import declarations as policy
from planrunner.plan.lower import flow as flow
from planrunner.plan.lower import values as values
from planrunner.plan.lower.declarations import GATE_KEYS
from planrunner.plan.lower.values import FACTS, OUTCOME, Lowering, condition
from planrunner.plan.model import Computed, Edge
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
            reader = READERS.get(name)
            if reader is not None:
                reader(self, value)
            elif name == "id":
                self.identity = value
            elif name in TOGETHER and (name != "validation" or not isinstance(value, Mapping)):
                self.nodes[name] = value
            elif name in NOTES:
                self.notes[name] = values.data(value)

    def span(self, *names: str) -> Span:
        """The place of the first of the keys that the task has."""
        return next((span for name in names for key, span in self.spans if key == name), NOWHERE)


_Reader = Callable[[Draft, Node], None]


def _text(field: str) -> _Reader:
    def read_text(draft: Draft, node: Node) -> None:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            draft.fields[field] = node.value.strip()

    return read_text


def _command(draft: Draft, node: Node) -> None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        draft.fields["command"] = node.value.strip()
        draft.nodes["command"] = node


def _inputs(draft: Draft, node: Node) -> None:
    draft.fields["inputs"] = values.data(node)


def _policy(draft: Draft, node: Node) -> None:
    draft.fields["policy"] = values.data(node)


def _deadline(draft: Draft, node: Node) -> None:
    """Kept as people read it, too."""
    draft.notes["deadline"] = values.data(node)
    draft.fields["due_in"] = policy.deadline(draft.low, node)
    draft.fields["due"] = policy.due(node)


def _secrets(draft: Draft, node: Node) -> None:
    draft.fields["secrets"] = values.data(node)


def _run(draft: Draft, node: Node) -> None:
    draft.fields["run"] = found = actions.script(node)
    if isinstance(found, str) and only_calls(found):
        draft.nodes["run"] = node
    if found and any("\0" in part for part in ([found] if isinstance(found, str) else found)):
        draft.low.report("PLAN006", "a command cannot contain the character NUL", node.span, "take `\\0` out")


def _priority(draft: Draft, node: Node) -> None:
    number = values.whole(node)
    draft.fields["priority"] = PRIORITIES.get(values.text(node), 0) if number is None else number


def _labels(draft: Draft, node: Node) -> None:
    draft.fields["labels"] = tuple(dict.fromkeys((*draft.defaults.get("labels", ()), *values.texts(node))))


def _env(draft: Draft, node: Node) -> None:
    draft.fields["env"] = tuple({**dict(draft.defaults.get("env", ())), **dict(values.pairs(node))}.items())


def _allow_failure(draft: Draft, node: Node) -> None:
    draft.fields["allow_failure"] = bool(values.truth(node))


def _irreversible(draft: Draft, node: Node) -> None:
    draft.fields["irreversible"] = bool(values.truth(node))


def _ends_plan(draft: Draft, node: Node) -> None:
    draft.fields["ends_plan"] = bool(values.truth(node))


def _optional(draft: Draft, node: Node) -> None:
    draft.fields["optional"] = bool(values.truth(node))


def _backup(draft: Draft, node: Node) -> None:
    draft.fields["backup"] = values.texts(node)


def _checkpoint(draft: Draft, node: Node) -> None:
    """``true``, ``false`` or the patterns of what is kept."""
    paths = node.get("paths") if isinstance(node, Mapping) else None
    if paths is not None:
        draft.fields["checkpoint"] = actions.kept_paths(draft.low, paths)
    else:
        wanted = isinstance(node, Mapping) or bool(values.truth(node))
        draft.fields["checkpoint"] = () if wanted else None


def _fresh(draft: Draft, node: Node) -> None:
    draft.fields["fresh"] = actions.fresh(draft.low, node)
    draft.fields["renewed"] = values.text(node) == "never"


def _stdin(draft: Draft, node: Node) -> None:
    draft.fields["stdin"] = values.plain_text(node)


def _ready(draft: Draft, node: Node) -> None:
    draft.fields["ready"] = values.text(node).strip()
    draft.fields.setdefault("effect", "idempotent")  # it ends with its runner, and the next one starts it


def _delay(draft: Draft, node: Node) -> None:
    if not computes(draft, "delay", node):
        draft.fields["delay"] = values.duration(draft.low, node)


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


def _degraded(draft: Draft, node: Node) -> None:
    draft.fields["degraded"] = actions.action(draft.low, node)
    if draft.fields["degraded"] is None:
        draft.notes["degraded"] = values.data(node)


def _when(draft: Draft, node: Node) -> None:
    draft.fields["when"] = condition(draft.low, node)


def _needs(draft: Draft, node: Node) -> None:
    """A list of ids at once; text may be an expression, which is a join as well."""
    if isinstance(node, Sequence):
        draft.fields["needs"] = flow.listed(node)
    else:
        draft.nodes["needs"] = node


def _outputs(draft: Draft, node: Node) -> None:
    draft.fields["outputs"] = parts.outputs(node)
    parts.check_types(draft.low, node)


def _artifacts(draft: Draft, node: Node) -> None:
    draft.fields["artifacts"] = parts.artifacts(node)
    parts.check_retention(draft.low, node)
    parts.check_places(draft.low, node)


def _on_success(draft: Draft, node: Node) -> None:
    draft.edges["on_success"] = flow.edges(draft.low, node, "success")


def _on_failure(draft: Draft, node: Node) -> None:
    draft.edges["on_failure"] = flow.edges(draft.low, node, "failure")


def _next(draft: Draft, node: Node) -> None:
    draft.edges["next"] = flow.next_edges(draft.low, node)


def _word(field: str, words: str) -> _Reader:
    """One of a few words; the schema has reported any other."""
    allowed = frozenset(words.split())

    def read_word(draft: Draft, node: Node) -> None:
        word = values.text(node)
        if word in allowed:
            draft.fields[field] = word

    return read_word


_TEXTS = ("title", "description", "kind", "owner", "uses", "cwd", "shell")
READERS: dict[str, _Reader] = {
    **{name: _text(name) for name in _TEXTS},
    "role": _word("role", "START LINEAR DECISION BRANCH SPLIT MERGE EXIT"),
    "stdout": _word("stdout", "text json lines"),
    "effect": _word("effect", "pure read idempotent checkable unsafe"),
    "on_doubt": _word("on_doubt", "probe retry ask rollback fail"),
    "command": _command,
    "with": _inputs,
    "run": _run,
    "priority": _priority,
    "labels": _labels,
    "env": _env,
    "policy": _policy,
    "secrets": _secrets,
    "deadline": _deadline,
    "allow_failure": _allow_failure,
    "irreversible": _irreversible,
    "optional": _optional,
    "ends_plan": _ends_plan,
    "backup": _backup,
    "checkpoint": _checkpoint,
    "fresh": _fresh,
    "stdin": _stdin,
    "ready": _ready,
    "delay": _delay,
    "degraded": _degraded,
    "when": _when,
    "needs": _needs,
    "outputs": _outputs,
    "artifacts": _artifacts,
    "on_success": _on_success,
    "on_failure": _on_failure,
    "next": _next,
}
_TIMES = "timeout timebox heartbeat watchdog retry budgets"
_REST = f"validation foreach matrix loop subplan params rollback evidence {_TIMES} join failure_modes"
TOGETHER = GATE_KEYS | flow.FANOUT_KEYS | CRITERIA.keys() | frozenset(_REST.split())
NOTES = frozenset("assumptions risks effects capabilities validation status deadline environment".split())
"""Keys that people read and the machine does not."""
