"""Gates: from the keys of a task, or from the policy's demand for a label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.diagnostics import Label
from planrunner.jsontext import write_json
from planrunner.plan import lower_parts as parts
from planrunner.plan import lower_values as values
from planrunner.plan.expressions.parse import parse
from planrunner.plan.lower_expressions import CHECKS, condition, criteria
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Approvers, Edge, Gate, Option, Reject
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

GATE_KEYS = frozenset(
    ["gate", "ask", "checks", "approvers", "expires", "on_expiry", "escalate", "on_reject", "options", "form"]
)


def gate(low: Lowering, nodes: dict[str, Node]) -> Gate:
    """A gate from the keys of its task; without a kind, checks make it a gate of checks and people one of approval."""
    kind = values.text(nodes["gate"]) if "gate" in nodes else ""
    found: dict[str, Any] = {name: read(low, nodes[name]) for name, read in _READERS.items() if name in nodes}
    found |= found.pop("approvers", {})
    kind = kind or ("checks" if "checks" in nodes else "")
    _report_missing(low, kind, nodes)
    _report_alike(low, found.get("options", ()))
    return Gate(kind or "approval", **found)


_NEEDED = {
    "checks": (("checks",), "what has to hold: `checks: [tasks.test.exit_code == 0]`"),
    "invariants": (("checks",), "what has to hold: `checks: [tasks.test.exit_code == 0]`"),
    "decision": (("options", "form"), "what there is to choose from: `options: [now, later]`"),
    "schema": (("evidence",), "the data and its schema: `evidence: [{schema: FILE, file: FILE}]`"),
    "tests": (("evidence",), "the reports in JUnit format: `evidence: [report.xml]`"),
}
"""What a kind of gate cannot decide without, and how it is said."""


def _report_missing(low: Lowering, kind: str, nodes: dict[str, Node]) -> None:
    """A gate that would open without having looked at anything, or wait for somebody who is not named."""
    keys, help_ = _NEEDED.get(kind, ((), ""))
    if keys and not any(_says(kind, key, nodes[key]) for key in keys if key in nodes):
        there = next(nodes[key].span for key in (*keys, "gate") if key in nodes)
        low.report(
            "PLAN004", f"a gate of the kind `{kind}` needs {_WANTED.get(kind, f'`{keys[0]}`')}", there, f"say {help_}"
        )
    expiry = nodes.get("on_expiry")
    if expiry is not None and values.text(expiry) == "escalate" and "escalate" not in nodes:
        message = "`on_expiry: escalate` needs `escalate`"
        low.report("PLAN004", message, expiry.span, "say who decides then: `escalate: {roles: [lead]}`")


_WANTED = {"schema": "a schema under `evidence`", "tests": "a report under `evidence`"}


def _says(kind: str, key: str, node: Node) -> bool:
    """Whether a value gives the gate something to go by; a template may give anything."""
    items = node.items if isinstance(node, Sequence) else [node]
    if key != "evidence":
        return bool(items)
    return any(_is_looked_at(kind, item) for item in items)


def _is_looked_at(kind: str, item: Node) -> bool:
    if isinstance(item, Mapping):
        names = {"schema"} if kind == "schema" else {"junit", "tests"}
        return any(key.value in names for key, _ in item.entries)
    return bool(word := values.text(item)) and (kind == "tests" or "{{" in word)


def _report_alike(low: Lowering, options: tuple[Option, ...]) -> None:
    first: dict[str, Option] = {}
    for option in options:
        other = first.setdefault(option.name, option)
        if other is not option:
            label = Label(other.span, "the other one stands here")
            low.report("PLAN006", f"two options are called `{option.name}`", option.span, "give each an id", label)


def approvers(node: Node) -> Approvers:
    """Who decides: a mapping, or the names of people alone. Once somebody is named, whoever started the run may not
    decide unless ``starter: true`` allows it."""
    if not isinstance(node, Mapping):
        return Approvers(people=values.texts(node), not_starter=True)
    found = {str(key.value): value for key, value in node.entries}
    starter = values.truth(found["starter"]) if "starter" in found else None
    return Approvers(
        values.texts(found["roles"]) if "roles" in found else (),
        values.texts(found["users"]) if "users" in found else (),
        (values.whole(found["count"]) if "count" in found else None) or 1,
        not starter,
    )


def _options(low: Lowering, node: Node) -> tuple[Option, ...]:
    """A list of options, or an expression that gives one."""
    if isinstance(node, Scalar):
        each = condition(low, node)
        return (Option("", span=node.span, each=each),) if each is not None else ()
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(option for item in items if (option := _option(item)) is not None)


def _option(node: Node) -> Option | None:
    if isinstance(node, Scalar):
        name = values.text(node)
        return Option(name, span=node.span) if name else None
    if not isinstance(node, Mapping):
        return None
    found = {str(key.value): value for key, value in node.entries}
    keys = ("id", "title", "description", "cost", "to", "rework")
    words = {name: values.text(found[name]) for name in keys if name in found}
    name = words.get("id", "") or words.get("title", "")
    return Option(
        name,
        words.get("title", ""),
        words.get("description", ""),
        values.texts(found["pros"]) if "pros" in found else (),
        values.texts(found["cons"]) if "cons" in found else (),
        words.get("cost", ""),
        words.get("to", "") or words.get("rework", ""),
        node.span,
        "rework" in words,
        (values.whole(found["max"]) if "max" in found else 0) or 0,
    )


def _reject(node: Node) -> Reject:
    """``fail``, a task, ``{to: task}`` or ``{rework: task, max: n}``."""
    if not isinstance(node, Mapping):
        word = values.text(node)
        return Reject(span=node.span) if word in ("", "fail") else Reject("task", word, span=node.span)
    rework, to, most = node.get("rework"), node.get("to"), node.get("max")
    if rework is not None:
        return Reject("rework", values.text(rework), (values.whole(most) if most is not None else 0) or 0, rework.span)
    return Reject("task", values.text(to), span=to.span) if to is not None else Reject(span=node.span)


def routes(low: Lowering, found: Gate) -> list[Edge]:
    """The edges of a gate: to the task that runs after a rejection, and to those that its options lead to."""
    edges = []
    reject = found.on_reject
    if reject.action == "task":
        edges.append(Edge(reject.target, "failure", None, "rejected", span=reject.span))
    for option in found.options:
        if option.target:
            chosen = parse(f"outputs.choice == {_quoted(option.name)}")._replace(span=option.span)
            edge = Edge(option.target, "condition", chosen, span=option.span)
            edges.append(edge._replace(on="success", rework=True, max=option.max) if option.rework else edge)
    return edges


def _quoted(text: str) -> str:
    return write_json(text)


def _people(_low: Lowering, node: Node) -> dict[str, Any]:
    return approvers(node)._asdict()


_READERS: dict[str, Callable[[Lowering, Node], Any]] = {
    "ask": lambda _low, node: values.text(node),
    "checks": lambda low, node: criteria(low, node, CHECKS | low.ids | low.names),
    "approvers": _people,
    "expires": values.duration,
    "on_expiry": lambda _low, node: values.text(node),
    "escalate": lambda _low, node: approvers(node),
    "on_reject": lambda _low, node: _reject(node),
    "options": _options,
    "form": parts.fields,
    "evidence": lambda _low, node: values.data(node),
}
