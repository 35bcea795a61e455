"""The keys of a task in one table: names and aliases, in their order, what is rewritten in them, and how they are read.

A key is read into a draft: to a field of the task, to the notes, or kept for what takes several keys to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

from planrunner.plan.commands.statements import only_calls
from planrunner.plan.lower import actions, declarations, flow, values
from planrunner.plan.lower.declarations import GATE_KEYS
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
            row = _BY_NAME.get(name)
            if row is not None:
                row.read(self, row.field or name, value)

    @staticmethod
    def known() -> tuple[str, ...]:
        """The keys that a task has."""
        return tuple(_BY_NAME)

    def span(self, *names: str) -> Span:
        """The place of the first of the keys that the task has."""
        return next((span for name in names for key, span in self.spans if key == name), NOWHERE)


Part = Literal[
    "", "action", "budgets", "digits", "edges", "hypotheses", "loop", "rollback", "services", "subplans",
    "task", "tasks",
]  # fmt: skip
"""What the value of a key holds that has canonical keys of its own."""


class Key(NamedTuple):
    """A key of a task: how it is read, its other names (words of a text), the field that it becomes (empty: of its own
    name), and what ``canonical`` rewrites in its value."""

    name: str
    read: Callable[[Draft, str, Node], None]
    aliases: str = ""
    field: str = ""
    inside: Part = ""


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


KEYS = (
    Key("id", _identity),
    Key("title", _text, "name"),
    Key("description", _text),
    Key("kind", _text),
    Key("role", _word),
    Key("status", _note),
    Key("priority", _priority),
    Key("owner", _text),
    Key("labels", _labels),
    Key("deadline", _deadline),
    Key("needs", _needs, "depends_on dependsOn"),
    Key("join", _together),
    Key("when", _condition, "if"),
    Key("assumptions", _note),
    Key("risks", _note),
    Key("capabilities", _note),
    Key("preconditions", _together),
    Key("foreach", _together),
    Key("matrix", _together),
    Key("as", _together),
    Key("max_parallel", _together),
    Key("max_items", _together),
    Key("tolerate", _together),
    Key("delay", _delay),
    Key("uses", _text, "using"),
    Key("with", _data, "inputs input", "inputs"),
    Key("run", _run, inside="digits"),
    Key("command", _command),
    Key("agent", _together),
    Key("prompt", _together),
    Key("model", _together),
    Key("effort", _together),
    Key("tools", _together),
    Key("denied", _together),
    Key("calls", _together),
    Key("schema", _together),
    Key("until", _together, inside="task"),
    Key("tries", _together),
    Key("rounds", _together),
    Key("session", _together),
    Key("context", _together),
    Key("branches", _together),
    Key("score", _together, inside="task"),
    Key("loop", _together, inside="loop"),
    Key("subplan", _together, inside="tasks"),
    Key("params", _together),
    Key("gate", _together),
    Key("ask", _together),
    Key("checks", _together),
    Key("options", _together),
    Key("choose", _together),
    Key("form", _together),
    Key("approvers", _together),
    Key("expires", _together),
    Key("on_expiry", _together),
    Key("escalate", _together),
    Key("on_reject", _together),
    Key("window", _together),
    Key("cwd", _text),
    Key("shell", _text),
    Key("env", _env, "environment", inside="digits"),
    Key("secrets", _data),
    Key("environment", _note),
    Key("stdin", _plain_text, inside="digits"),
    Key("ready", _ready),
    Key("stdout", _word),
    Key("timeout", _together),
    Key("timebox", _together),
    Key("heartbeat", _together),
    Key("watchdog", _together),
    Key("retry", _together),
    Key("on_doubt", _word),
    Key("allow_failure", _flag, "continue_on_failure continue_on_error"),
    Key("fresh", _fresh),
    Key("budgets", _together, "budget", inside="budgets"),
    Key("policy", _data),
    Key("effect", _word),
    Key("effects", _note),
    Key("expect", _together, "success_criteria criteria"),
    Key("ok_codes", _together),
    Key("postconditions", _together),
    Key("validation", _validation),
    Key("failure_modes", _together),
    Key("outputs", _outputs),
    Key("artifacts", _artifacts),
    Key("evidence", _together),
    Key("checkpoint", _checkpoint),
    Key("backup", _texts),
    Key("rollback", _together, inside="action"),
    Key("irreversible", _flag),
    Key("reflect", _together),
    Key("on_success", _edges, inside="edges"),
    Key("on_failure", _edges, inside="edges"),
    Key("next", _edges, inside="edges"),
    Key("ends_plan", _flag),
)
"""In the order in which the formatter writes them; ``ready`` is for services alone."""

_BY_NAME = {key.name: key for key in KEYS}
assert _BY_NAME.keys() >= GATE_KEYS | flow.FANOUT_KEYS | CRITERIA.keys()
