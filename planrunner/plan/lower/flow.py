"""How control moves: needs, joins, edges, retries, loops, fan-outs and their families.

A task that needs a member of a family, ``dive-2``, has the family as its need, since a run alone knows its members;
its join keeps the name.
"""

from __future__ import annotations

import re
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.expressions.values import shown
from planrunner.plan.joins import WORDS
from planrunner.plan.lower import values as values
from planrunner.plan.lower.values import DETECT, Lowering, condition, criterion
from planrunner.plan.model import (
    Axis,
    Edge,
    EdgeWhen,
    Expression,
    FailureMode,
    Fanout,
    Gate,
    Join,
    Param,
    Retry,
    Task,
)
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.tasks import meant_by
from planrunner.plan.templated import holds_template
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any


_IDS = r"[A-Za-z_][A-Za-z0-9_-]*\*?(?:[\s,]+[A-Za-z_][A-Za-z0-9_-]*\*?)*"
_OPERATORS = frozenset({"and", "or", "not", "in", "is"})
_NO_TASKS = frozenset({"params", "env", "plan", "run", "tasks", "hypotheses"})


def needs(low: Lowering, node: Node) -> tuple[tuple[str, ...], Join | None]:
    """Ids of a text, and the join that an expression over results means."""
    content = values.text(node) if _is_text(node) else ""
    if not content:
        return (), None
    names = re.split(r"[\s,]+", content)
    if re.fullmatch(_IDS, content) and (len(names) == 1 or _OPERATORS.isdisjoint(names)):
        return _once(names), None
    parsed = condition(low, node)
    if parsed is None:
        return (), None
    return _once(_named_tasks(parsed, low.ids)), Join("expression", expression=parsed, span=node.span)


def listed(node: Sequence) -> tuple[str, ...]:
    """Ids of a list."""
    words = [item.value for item in node.items if item.__class__ is Scalar and item.value.__class__ is str]
    return _once([name for word in words if (name := word.strip())])


def _named_tasks(expression: Expression, ids: frozenset[str]) -> list[str]:
    """The tasks that an expression over results reads: ``test.ok`` and ``tasks.test.status`` both name ``test``. A task
    of ``ids`` may be called ``plan`` or ``tasks``, as a name of the plan is."""
    result = []
    for path in expression.paths:
        name, member = path[0], path[1] if len(path) > 1 else ""
        if name == "tasks" and member and (member in ids or name not in ids):
            result.append(member)
        elif name in ids or name not in _NO_TASKS:
            result.append(name)
    return result


def join(low: Lowering, node: Node) -> Join | None:
    if isinstance(node, Mapping):
        least = node.get("at_least")
        number = values.whole(least) if least is not None else None
        return Join("at_least", number, span=node.span) if number else None
    word = values.text(node) if _is_text(node) else ""
    for kind in WORDS:
        if word == kind:
            return Join(kind, span=node.span)
    parsed = condition(low, node) if word else None
    return Join("expression", expression=parsed, span=node.span) if parsed else None


def edges(low: Lowering, node: Node, on: EdgeWhen) -> list[Edge]:
    """``on_success`` and ``on_failure``: an id, a mapping with ``to`` or ``rework``, or a list of either."""
    items = node.items if isinstance(node, Sequence) else [node]
    return [edge for item in items if (edge := _edge(low, item, on))]


def next_edges(low: Lowering, node: Node) -> list[Edge]:
    """``next``: like the others, with ``on`` naming success, failure, always, or a class of failures."""
    items = node.items if isinstance(node, Sequence) else [node]
    result = []
    for item in items:
        word = values.text(item.get("on") or Scalar("", 0, 0)) if isinstance(item, Mapping) else ""
        edge = _edge(low, item, _when(item, word))
        if edge is not None:
            known = word in ("", "success", "failure", "always")
            result.append(edge if known else edge._replace(failure_class=word))
    return result


def _when(item: Node, word: str) -> EdgeWhen:
    if word == "success":
        return "success"
    if word == "always":
        return "always"
    if word:
        return "failure"
    return "condition" if isinstance(item, Mapping) and item.get("when") is not None else "success"


def _edge(low: Lowering, node: Node, on: EdgeWhen) -> Edge | None:
    if isinstance(node, Scalar):
        return Edge(values.text(node), on, span=node.span) if _is_text(node) else None
    if not isinstance(node, Mapping):
        return None
    to, rework, most = node.get("to"), node.get("rework"), node.get("max")
    target = to if rework is None else rework
    if target is None or not _is_text(target):
        return None
    when, recovers, failure = node.get("when"), node.get("recovers"), node.get("class")
    otherwise = node.get("else")
    return Edge(
        values.text(target),
        on,
        condition(low, when) if when is not None else None,
        values.text(failure) if failure is not None else "",
        bool(recovers is not None and values.truth(recovers)),
        target.span,
        rework is not None,
        (values.whole(most) if most is not None and rework is not None else 0) or 0,
        bool(otherwise is not None and values.truth(otherwise)),
    )


def failure_modes(low: Lowering, node: Node, bound: frozenset[str]) -> tuple[list[FailureMode], list[Edge]]:
    """Foreseen failures, and a recovering edge for each whose ``recover`` names a task."""
    modes: list[FailureMode] = []
    edges: list[Edge] = []
    for item in node.items if isinstance(node, Sequence) else []:
        mode = _failure_mode(low, item, DETECT | bound)
        if mode is None:
            continue
        modes.append(mode)
        if mode.recover in low.ids:
            edges.append(Edge(mode.recover, "failure", None, mode.name, True, mode.span))
    return modes, edges


def _failure_mode(low: Lowering, node: Node, known: frozenset[str]) -> FailureMode | None:
    if isinstance(node, Scalar):
        return FailureMode(values.text(node), span=node.span) if _is_text(node) else None
    name = node.get("name") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or name is None:
        return None
    detect, recover = node.get("detect"), node.get("recover")
    if recover is not None:
        _check_recover(low, recover)
    return FailureMode(
        values.text(name),
        criterion(low, detect, known) if detect is not None else None,
        values.text(recover) if recover is not None else "",
        recover.span if recover is not None else name.span,
    )


def _check_recover(low: Lowering, node: Node) -> None:
    """A word that is all but the id of a task is that task misspelt; other words are for people."""
    word = values.text(node)
    meant = nearest(word, low.ids) if " " not in word and word not in low.ids else None
    if meant is not None:
        low.report("PLAN101", f"the plan has no task `{word}`, did you mean `{meant}`?", node.span)


def retry(low: Lowering, node: Node, default: Retry) -> Retry:
    """A number of attempts, or a mapping whose keys win over those of the default."""
    number = values.whole(node)
    if number is not None:
        return default._replace(attempts=max(number, 1))
    if not isinstance(node, Mapping):
        return default
    fields: dict[str, Any] = {} if default.attempts > 1 else {"attempts": 3}
    for key, value in node.entries:
        read = _retry_value(low, str(key.value), value)
        if read is not None:
            fields[str(key.value)] = read
    return default._replace(**fields)


def _retry_value(low: Lowering, key: str, node: Node) -> Any:
    if key == "attempts":
        return values.whole(node)
    if key == "backoff":
        return word if (word := values.text(node)) in ("fixed", "linear", "exponential") else None
    if key in ("delay", "max_delay"):
        return values.duration(low, node)
    if key == "jitter":
        return values.fraction(low, node)
    return values.texts(node) if key == "on" else None


_FANOUT = {"as": "name", "max_parallel": "max_parallel", "max_items": "max_items", "tolerate": "tolerate"}


def fanout(low: Lowering, parts: dict[str, Node]) -> Fanout:
    """``foreach`` (an expression or a list of items) or ``matrix``, with their limits."""
    fields: dict[str, Any] = {}
    for key, field in _FANOUT.items():
        if key in parts:
            fields[field] = values.text(parts[key]) if key == "as" else values.data(parts[key])
    _check_fanout(low, parts)
    source = parts.get("foreach")
    if isinstance(source, Sequence):
        fields["items"] = values.data(source)
    elif source is not None:
        fields["foreach"] = condition(low, source)
    if "matrix" in parts:
        fields["matrix"] = values.data(parts["matrix"])
        fields["axes"] = _axes(low, parts["matrix"])
    return Fanout(**fields)


_TAKEN = frozenset({"params", "tasks", "env", "plan", "run", "loop", "carry", "index", "matrix"})


def _check_fanout(low: Lowering, parts: dict[str, Node]) -> None:
    name, share = (values.text(parts[key]) if key in parts else "" for key in ("as", "tolerate"))
    if name in _TAKEN:
        message = f"an item cannot be called `{name}`, which names something else in expressions"
        low.report("PLAN006", message, parts["as"].span, "choose another name")
    if re.fullmatch(r"\d+(?:\.\d+)?%", share) and float(share[:-1]) > 100:
        low.report("PLAN006", f"`{share}` is more than all items", parts["tolerate"].span, "write `100%` at most")
    for key in ("foreach", "matrix"):
        if key in parts:
            check_numbers(low, parts[key])
    check_patterns(low, parts.get("matrix"))


def _axes(low: Lowering, node: Node) -> tuple[Axis, ...]:
    """The axes of a matrix: lists, or expressions that give one."""
    result = []
    for key, value in node.entries if isinstance(node, Mapping) else ():
        name = str(key.value)
        if name not in ("include", "exclude"):
            listed = values.data(value) if isinstance(value, Sequence) else None
            result.append(Axis(name, listed, condition(low, value) if listed is None else None))
    return tuple(result)


def _is_text(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value.strip())


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def conflict(low: Lowering, later: Span, message: str, help_: str = "") -> None:
    low.report("PLAN009", message, later, help_)


_ENDS_IN_ZERO = r"[-+]?[0-9]*\.[0-9]*0"
_KINDS = {bool: "boolean", int: "number", float: "number", str: "text"}
_SHOWN = 8


def check_numbers(low: Lowering, node: Node) -> None:
    """Numbers that lose the last digit of their text: ``3.10`` is a version and reads as 3.1."""
    waiting: list[Node] = [node]
    for each in waiting:
        if isinstance(each, Mapping):
            waiting += [value for _, value in each.entries]
        elif isinstance(each, Sequence):
            waiting += each.items
        elif isinstance(each.value, float) and re.fullmatch(_ENDS_IN_ZERO, each.raw) and str(each.value) != each.raw:
            fix = Fix("quote it", (Edit(each.span, f'"{each.raw}"'),), safe=False)
            message = f"`{each.raw}` reads as the number {each.value}"
            help_ = f'quote it, "{each.raw}", or write {each.value}'
            low.findings.append(Diagnostic("PLAN010", message, each.span, help=help_, fix=fix))


def check_patterns(low: Lowering, matrix: Node | None) -> None:
    """Entries of ``exclude`` and ``include`` that are meant to fit combinations and fit none."""
    if not isinstance(matrix, Mapping):
        return
    axes = {str(key.value): value for key, value in matrix.entries if key.value not in ("include", "exclude")}
    for name in ("exclude", "include"):
        entries = matrix.get(name)
        for item in entries.items if isinstance(entries, Sequence) else ():
            for key, value in item.entries if isinstance(item, Mapping) else ():
                axis = str(key.value)
                if axis in axes:
                    _check_value(low, (name, axis), value, axes[axis])
                elif name == "exclude":
                    message = f"this entry excludes nothing: the matrix has no axis `{axis}`"
                    listed = ", ".join(sorted(axes)[:_SHOWN])
                    low.report("PLAN006", message, key.span, f"its axes are {listed}" if axes else "")


def _check_value(low: Lowering, place: tuple[str, str], node: Node, axis: Node) -> None:
    """A value that its axis, where that is written out, does not have. An entry of ``include`` may bring a value of its
    own, but not one that only differs in its kind."""
    wanted, listed = values.data(node), values.data(axis)
    if not isinstance(listed, list) or holds_template(listed) or holds_template(wanted) or wanted in listed:
        return
    key, name = place
    twin = next((each for each in listed if _kind(each) != _kind(wanted) and str(each) == str(wanted)), None)
    effect = "excludes nothing" if key == "exclude" else "adds to no combination"
    if twin is not None:
        message = (
            f"this entry {effect}: the axis `{name}` has the {_kind(twin)} {shown(twin)}, "
            f"not the {_kind(wanted)} {shown(wanted)}"
        )
        low.report("PLAN006", message, node.span, f"write {shown(twin)}")
    elif key == "exclude":
        near = nearest(wanted, [each for each in listed if isinstance(each, str)]) if isinstance(wanted, str) else None
        way = meant(near)
        message = f"this entry {effect}: the axis `{name}` has no value {shown(wanted)}{way}"
        low.report("PLAN006", message, node.span, f"it has {', '.join(map(shown, listed[:_SHOWN]))}" if listed else "")


def _kind(value: Json) -> str:
    return _KINDS.get(type(value), "")


ITEMS = "items"
"""The field of the gate that takes the items of a family."""


def with_items(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, with a gate before each family without items: its answer lists them. What
    the family waits for, and what leads to it, the gate takes over."""
    if not any(_lacks_items(task) for task in tasks):
        return tasks
    found: list[Task] = []
    gates: dict[str, str] = {}
    taken = {task.id for task in tasks}
    for task in tasks:
        if _lacks_items(task):
            gate = _gate_before(task, taken)
            gates[task.id] = gate.id
            taken.add(gate.id)
            found.append(gate)
            text = f"tasks['{gate.id}'].outputs.{ITEMS}"
            items = condition(low, Scalar(text, task.span.start, task.span.end, text))
            task = task._replace(
                needs=(gate.id,), join=Join(), when=None, preconditions=(), fanout=Fanout(foreach=items)
            )
        found.append(task)
    return tuple(_leading_to(task, gates) for task in found)


def _lacks_items(task: Task) -> bool:
    return task.id[-1:] == "*" and task.fanout is None


def _gate_before(family: Task, taken: set[str]) -> Task:
    stem = family.id[:-1].rstrip("-_") or "family"
    name = stem if stem not in taken else f"{stem}-{ITEMS}"
    while name in taken:
        name += "-"
    about = family.title or family.description or family.command
    ask = f"Which items does `{family.id}` take? Each becomes one task" + (f": {about}" if about else "")
    field = Param(ITEMS, "list", required=True, description="the items, one task each")
    return Task(
        name,
        title=f"The items of {family.id}",
        owner=family.owner,
        priority=family.priority,
        needs=family.needs,
        join=family.join,
        when=family.when,
        preconditions=family.preconditions,
        gate=Gate("approval", ask, form=(field,)),
        finally_=family.finally_,
        span=family.span,
    )


def _leading_to(task: Task, gates: dict[str, str]) -> Task:
    if not any(edge.target in gates for edge in task.edges):
        return task
    edges = tuple(edge._replace(target=gates.get(edge.target, edge.target)) for edge in task.edges)
    return task._replace(edges=edges)


def joined(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, with needs on ``dive-1`` as needs on the family ``dive-*``, whose join names the member.
    An edge leads to a whole family."""
    families = [task for task in tasks if task.id[-1:] == "*"]
    if not families:
        return tasks
    ids = {task.id for task in tasks}

    def meant(name: str) -> str:
        if name in ids:
            return name
        return next((family.id for family in families if meant_by(family, name)), name)

    found = []
    for task in tasks:
        targets = {name: meant(name) for name in _named(task)}
        for edge in task.edges:
            if _is_member(edge.target, targets[edge.target]):
                way = f"write `{targets[edge.target]}` for all of them"
                message = (
                    f"leads to `{edge.target}`, one task of the family `{targets[edge.target]}`: an edge leads to all"
                )
                low.report("PLAN101", message, edge.span, way)
        found.append(_led(task, targets))
    return tuple(found)


def _is_member(name: str, target: str) -> bool:
    """Whether a name that means a family is that of one of its members."""
    number = name[len(target) - 1 :]
    return name != target and number.isascii() and number.isdigit() and number[0] != "0"


def _named(task: Task) -> set[str]:
    return {*task.needs, *(edge.target for edge in task.edges)}


def _led(task: Task, meant: dict[str, str]) -> Task:
    if all(name == target for name, target in meant.items()):
        return task
    needs = tuple(dict.fromkeys(meant[name] for name in task.needs))
    edges = tuple(edge._replace(target=meant[edge.target]) for edge in task.edges)
    named = any(_is_member(name, meant[name]) for name in task.needs)
    join = task.join._replace(named=task.needs) if named else task.join
    return task._replace(needs=needs, edges=edges, join=join)
