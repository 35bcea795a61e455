"""Reading one value of the tree as the type that the plan wants: words, quantities, data, conditions, criteria.

The schema check has said already what is of the wrong type; a reader that meets such a value gives None (or nothing)
and stays silent, so that everything sound beside it is still lowered. What only a reader can see, it reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Table
from functools import lru_cache
from typing import Any, TypeAlias

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.agents import Roster
from planrunner.plan.expressions.parse import classify, parse
from planrunner.plan.expressions.quantities import parse_count, parse_duration, parse_money, parse_percent
from planrunner.plan.expressions.values import ExpressionError
from planrunner.plan.files import Links
from planrunner.plan.model import Budgets, Capability, Criterion, Expression, Param
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, to_json

Json: TypeAlias = "Any"


class Pending(Struct):
    """A command that is lowered when the tasks beside it are known; ``defaults`` are those of its calls, ``family`` is
    where its verbs are looked up first (``git`` for ``status()``)."""

    node: Scalar
    defaults: dict[str, Any]
    family: str = ""


class Lowering:
    """What the lowering of one list of tasks shares: the findings, the task ids that names may refer to, the subplans
    that may be linked to, and the names that exist here beside those of every expression."""

    __slots__ = (
        *("_known", "budgets", "capabilities", "classified", "commands", "findings", "ids", "inputs", "links", "names"),
        *("agent", "agents", "declared", "hired", "inside", "params", "reached", "reflections", "roster", "worded"),
    )

    def __init__(
        self,
        findings: list[Diagnostic],
        ids: frozenset[str] = frozenset(),
        links: Links | None = None,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.findings = findings
        self.ids = ids
        self.links = links
        self.names = names
        self.params: tuple[Param, ...] = ()
        self.roster: Roster | None = None
        """The agents and tools of the project; None where they are not known."""
        self.agent: Node | None = None
        """The agent of tasks that have a prompt and name none."""
        self.agents: tuple[str, ...] = ()
        """The agents around, each a tool of the one before it."""
        self.declared: dict[str, Mapping] = {}
        """The agents that the plan itself has."""
        self.hired: set[str] = set()
        """The names of agents that tasks, or other agents, name."""
        self.capabilities: Table[str, Capability] | None = None
        """What commands may call; without any they stay words."""
        self.commands: dict[str, Pending] = {}
        """Commands of this list of tasks, by the ids of the tasks that hold them."""
        self.budgets = Budgets()
        """What the defaults of the plan say for each task that spends."""
        self.reflections: dict[str, Node] = {}
        """What tasks of this list say under ``reflect``, by their ids."""
        self.classified: dict[tuple[str, int], tuple[frozenset[str], Any]] = {}
        """What criteria turned out to be, by their text and the names they may use (which the value keeps alive)."""
        self.inputs: dict[str, dict[str, Json]] = {}
        """Default inputs by capability."""
        self.inside = False
        """Whether these tasks are inside another one, and not in a plan itself."""
        self.reached: set[str] = set()
        """The capabilities among them that something calls."""
        self.worded: set[Span] = set()
        """Places of numbers that are text, because they are declared as it."""
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def scope(self, ids: frozenset[str], names: frozenset[str] = frozenset()) -> Lowering:
        """The same findings with other ids: the tasks of a loop or a subplan see each other, and ``names`` more."""
        inner = Lowering(self.findings, ids, self.links, self.names | names)
        inner.params, inner.capabilities, inner.roster = self.params, self.capabilities, self.roster
        inner.inputs, inner.reached, inner.worded = self.inputs, self.reached, self.worded
        inner.budgets, inner.agent, inner.agents = self.budgets, self.agent, self.agents
        inner.declared, inner.hired = self.declared, self.hired
        return inner

    def with_defaults(self, uses: str, inputs: Json) -> Json:
        """The inputs of a call, over those that the plan gives every call of that capability."""
        given = self.inputs.get(uses)
        if given is None or not (inputs is None or isinstance(inputs, dict)):
            return inputs
        self.reached.add(uses)
        return {**given, **(inputs or {})}

    def known(self, names: frozenset[str]) -> frozenset[str]:
        """``names`` and those that exist here beside them: the same object each time, as ``classified`` wants it."""
        if not self.names:
            return names
        return self._known.setdefault(names, names | self.names)

    def report(self, code: str, message: str, span: Span, help_: str = "", label: Label | None = None) -> None:
        self.findings.append(Diagnostic(code, message, span, labels=(label,) if label else (), help=help_))


_seconds = lru_cache(maxsize=1024)(parse_duration)  # the tasks of a plan share a few durations


def text(node: Node) -> str:
    """Words as written, without the line ends around them; a number is kept in the digits of the text."""
    if node.__class__ is not Scalar:
        return ""
    value = node.value
    return value.strip() if value.__class__ is str else _written(node)


def _written(node: Scalar) -> str:
    value = node.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else node.raw or str(value)


def plain_text(node: Node) -> str:
    """Like ``text`` for values that the world sees, where spaces at the ends may matter: environment, arguments."""
    if not isinstance(node, Scalar):
        return ""
    return node.value if isinstance(node.value, str) else _written(node)


def texts(node: Node) -> tuple[str, ...]:
    """One word or a list of words."""
    if isinstance(node, Scalar):
        one = text(node)
        return (one,) if one else ()
    return tuple(text(item) for item in node.items if isinstance(item, Scalar)) if isinstance(node, Sequence) else ()


def truth(node: Node) -> bool | None:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, bool) else None


def whole(node: Node) -> int | None:
    """A whole number; a float without a fraction counts as one, as it does in JSON."""
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return None
    return int(node.value) if isinstance(node.value, int) or node.value.is_integer() else None


def data(node: Node) -> Json:
    return to_json(node)


def declared(low: Lowering, node: Node, kind: str) -> Json:
    """The data of a value of a declared type. A number under ``string`` is the text that was written: ``1.10`` is a
    version, ``4913e68`` a commit, ``0012345`` a serial number. Lists hold such values (``choices``)."""
    if kind != "string" or isinstance(node, Mapping):
        return to_json(node)
    if isinstance(node, Sequence):
        return [declared(low, item, kind) for item in node.items]
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return node.value
    low.worded.add(node.span)
    return plain_text(node)


def pairs(node: Node) -> tuple[tuple[str, str], ...]:
    """An environment: names and texts, each name once, the last one wins."""
    if not isinstance(node, Mapping):
        return ()
    return tuple({str(key.value): plain_text(value) for key, value in node.entries}.items())


def duration(low: Lowering, node: Node) -> float | None:
    """Seconds of ``5m``; a bare number counts seconds."""
    return _quantity(low, node, _seconds, "a duration such as `30s`, `5m` or `1h30m`")


def lasting(low: Lowering, node: Node) -> float | None:
    """Like ``duration`` where nothing could happen in no time at all."""
    found = duration(low, node)
    if found == 0:
        low.report("PLAN006", f"`{text(node)}` leaves no time", node.span, "write more, or leave it out")
    return found


def money(low: Lowering, node: Node) -> float | None:
    """Dollars of ``$2``; a bare number counts dollars."""
    return _quantity(low, node, parse_money, "an amount such as `$2` or `$0.50`")


def count(low: Lowering, node: Node) -> int | None:
    found = _quantity(low, node, parse_count, "a whole number such as `500`, `200k` or `2M`")
    return None if found is None else int(found)


def fraction(low: Lowering, node: Node) -> float | None:
    """A share between nothing and all: ``0.1`` or ``10%``."""
    return _quantity(low, node, parse_percent, "a share such as `0.1` or `10%`")


def _quantity(low: Lowering, node: Node, parse: Callable[[str], float | int | None], wanted: str) -> float | None:
    if not isinstance(node, Scalar) or node.value is None or isinstance(node.value, bool):
        return None
    if isinstance(node.value, int | float):
        return float(node.value) if node.value >= 0 else None
    found = parse(node.value)
    if found is None:
        low.report("PLAN006", f"`{node.value.strip()[:40]}` is not {wanted}", node.span)
    return found


RUN = frozenset({"params", "env", "plan", "run", "tasks", "rework"})
"""Names that every expression may read."""
ATTEMPT = frozenset({"now", "uuid", "retry"})
"""Names of the attempt that is under way or, before it, of the one that is to begin."""
OUTCOME = RUN | ATTEMPT | {"exit_code", "duration", "stdout", "stderr", "outputs", "attempt", "artifacts"}
"""Names of a task's own result: criteria, postconditions, conditions of its edges."""
DETECT = OUTCOME | {"failure", "message"}
"""Names for recognising a failure."""
FACTS = RUN | ATTEMPT | {"memory", "disk", "network", "host"}
"""Names for preconditions: facts of the world."""
CHECKS = RUN | ATTEMPT | {"artifacts", "outputs"}
"""Names for the checks of a gate."""

_new = tuple.__new__
"""Makes a NamedTuple in half the time of its constructor; plans have more criteria than tasks."""

_WHOLE_TEMPLATE = r"(?s:\s*\{\{(.*)\}\}\s*)"


def place(node: Scalar, content: str) -> int | None:
    """The offset in the file where ``content`` is as written; None where escapes or indentation lie between."""
    raw = node.raw
    if raw == content:
        return node.start
    at = raw.find(content)
    if at < 0 or raw.find(content, at + 1) >= 0:
        return None
    return node.start + at


def condition(low: Lowering, node: Node) -> Expression | None:
    """What must be an expression: ``when``, ``until``, ``foreach``, conditions of edges; ``{{ }}`` around may stay."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str | bool):
        return None
    if isinstance(node.value, bool):
        return _parsed(low, node, "true" if node.value else "false")
    content = node.value.strip()
    wrapped = re.fullmatch(_WHOLE_TEMPLATE, content) if "{{" in content else None
    if wrapped and "{{" not in wrapped[1]:
        content = wrapped[1].strip()
    return _parsed(low, node, content)


def _parsed(low: Lowering, node: Scalar, content: str) -> Expression | None:
    at = place(node, content)
    try:
        parsed = parse(content, at or 0)
    except ExpressionError as error:
        low.findings.append(_finding(error, node, at))
        return None
    return parsed if at is not None else parsed._replace(span=node.span)


def criteria(low: Lowering, node: Node, known: frozenset[str]) -> tuple[Criterion, ...]:
    """One criterion or a list of them."""
    items = node.items if isinstance(node, Sequence) else [node]
    read = (criterion(low, item, known) for item in items)
    return tuple(each for each in read if each is not None)


def criterion(low: Lowering, node: Node, known: frozenset[str]) -> Criterion | None:
    """``judge:`` is always words, ``check:`` always an expression; bare text is what it looks like."""
    if isinstance(node, Mapping):
        return _explicit(low, node)
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value.strip():
        return None
    content = node.value.strip()
    at = place(node, content)
    cached = low.classified.get((content, id(known)))
    if cached is None:
        cached = low.classified[content, id(known)] = (known, classify(content, known))
    found = cached[1]
    if isinstance(found, str):
        return Criterion(content, None, node.span)
    if isinstance(found, ExpressionError):
        low.findings.append(_finding(found, node, at))
        return None
    whole = _new(Span, (node.start, node.end))
    span = whole if at is None else _new(Span, (at, at + len(content)))
    return Criterion(content, Expression(content, found.tree, found.paths, span), whole)


def _explicit(low: Lowering, node: Mapping) -> Criterion | None:
    for key, value in node.entries:
        if not isinstance(value, Scalar) or not isinstance(value.value, str):
            return None
        if key.value == "judge":
            return Criterion(value.value.strip(), None, value.span)
        if key.value == "check":
            parsed = condition(low, value)
            return Criterion(value.value.strip(), parsed, value.span) if parsed else None
    return None


def _finding(error: ExpressionError, node: Scalar, at: int | None) -> Diagnostic:
    """Exact inside the text where it is as written, else the whole value."""
    span = node.span if at is None else Span(at + error.start, at + max(error.end, error.start))
    return Diagnostic(error.code, error.message, span, help=error.help)


def tree_at(value: Json, span: Span) -> Node:
    """Data as a tree at one place of the text; what is part of a tree already stays."""
    if isinstance(value, (Scalar, Sequence, Mapping)):
        return value
    if isinstance(value, dict):
        entries = [(Scalar(name, span.start, span.end, name), tree_at(each, span)) for name, each in value.items()]
        return Mapping(entries, span.start, span.end)
    if isinstance(value, list):
        return Sequence([tree_at(each, span) for each in value], span.start, span.end)
    return Scalar(value, span.start, span.end, str(value))
