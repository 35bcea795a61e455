"""The identity of a plan: its digest, and what a change of the plan means for tasks that have a result already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import joined, stable_json
from planrunner.later import load
from planrunner.plan.model import Expression, Plan, Task
from planrunner.plan.tasks import inside
from planrunner.plan.templates import references
from planrunner.records import Struct, astuple, defaults, fields

Json = Any


_PLACES = frozenset({"span", "spans", "script", "file", "axes", "due", "due_in"})
"""Places, and what follows from other fields."""


def digest(part: Plan | Task) -> str:
    """``sha256:`` and 64 hexadecimal digits of a plan, or of a task with everything inside it. The order of tasks
    counts, the order of keys in data does not."""
    return "sha256:" + sha256(_meaning(part).encode("ascii")).hexdigest()


def _meaning(value: Any) -> str:
    """What is hashed: JSON with sorted keys, no spaces and in ASCII, written straight away since plans are large.

    A record is an object with its name as the one key, holding those fields that differ from their defaults, without
    places. Leaving out defaults keeps the digest of old plans when the language gains a field.
    """
    kind = value.__class__
    if kind is str:
        return _text(value)
    if kind is float:
        return _number(value)
    if kind is Expression:
        return f'{{"Expression":{_text(value.text.strip())}}}'
    if kind is dict:
        return f"{{{','.join([f'{_text(name)}:{_meaning(value[name])}' for name in sorted(value)])}}}"
    if kind is list or kind is tuple:
        parts = [_text(item) if item.__class__ is str else _meaning(item) for item in value]
        return joined("[", parts, "]")
    return _record(kind, value) if fields(kind) else stable_json(value)


def _record(kind: type, value: Any) -> str:
    names, usual, numbers = _plans.get(kind) or _plan(kind)
    parts = []
    values = astuple(value) if isinstance(value, Struct) else value
    for at in compress(numbers, map(is_not, values, usual)):
        item = values[at]
        if names[at] and item != usual[at]:
            parts.append(names[at] + (_text(item) if item.__class__ is str else _meaning(item)))
    parts.sort()  # they begin with their names in quotes
    return joined(f'{{"{kind.__name__}":{{', parts, "}}")


def _plan(kind: Any) -> _Plan:
    names = ["" if name in _PLACES else f'"{name}":' for name in fields(kind)]
    usual = [defaults(kind).get(name, _REQUIRED) for name in fields(kind)]
    _plans[kind] = names, usual, range(len(names))
    return _plans[kind]


_Plan = tuple[list[str], list[object], range]
"""How the fields of a kind of record begin in JSON (empty for what is left out), their defaults and their numbers."""
_REQUIRED = object()
_plans: dict[type, _Plan] = {}


def _number(value: float) -> str:
    """``5.0`` and ``5`` are the same number in JSON and YAML alike."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else stable_json(value)


_NO_KEYS = frozenset({"span", "spans", "script", "file"})
"""Fields that no key says: places."""
_IN_THE_GRAPH = frozenset({"finally_", "renewed", "computed"})
"""Fields that follow from where a task stands, and from keys of other fields."""


@cache
def _left_out(kind: type, *changes: str) -> frozenset[str]:
    """The fields of a task or a plan that keys of these kinds of change say (``keys.Change``), and places."""
    rows = load(f"planrunner.plan.keys:{'TASK' if kind is Task else 'PLAN'}").keys  # by name: few runs need it
    names = [name for row in rows if row.change in changes for name in row.fields]
    return frozenset(names) | _NO_KEYS & {*fields(kind)}


@cache
def guards() -> frozenset[str]:
    """The fields of a task, as ``differences`` names them, that hold it back or decide whether it went well."""
    rows = load("planrunner.plan.keys:TASK").keys
    return frozenset(["finally", "concluding", *(row.fields[0] for row in rows if row.guards)])


def plain_task(task: Task, *changes: str) -> Task:
    """A task, and whatever it holds, with some fields as if they were not written: prose, and further ``changes``."""
    bare = Task(task.id)
    bare_fields: dict[str, Any] = {name: getattr(bare, name) for name in _left_out(Task, "prose", *changes)}
    if task.subplan:
        bare_fields["subplan"] = tuple(plain_task(each, *changes) for each in task.subplan)
    if task.loop is not None:
        bare_fields["loop"] = task.loop._replace(tasks=tuple(plain_task(each, *changes) for each in task.loop.tasks))
    if task.sub is not None:
        bare_fields["sub"] = _plain_plan(task.sub, *changes)
    if changes:
        bare_fields |= {name: getattr(bare, name) for name in _IN_THE_GRAPH}
        if task.fanout is not None:
            bare_fields["fanout"] = task.fanout._replace(max_parallel=None, tolerate=None)
    return task._replace(**bare_fields)


def _plain_plan(plan: Plan, *changes: str) -> Plan:
    bare = Plan(plan.id)
    bare_fields: dict[str, Any] = {name: getattr(bare, name) for name in _left_out(Plan, "prose", *changes)}
    return plan._replace(**bare_fields, tasks=tuple(plain_task(each, *changes) for each in plan.tasks))


def gives_the_same(one: Task, other: Task) -> bool:
    """Whether two tasks give the same from the same inputs where they run, whatever they are called and wherever they
    stand. Whether a task runs at all, its ``when``, is decided before."""
    if one._replace(id=other.id) == other:
        return True
    bare, other_bare = (plain_task(task, "place", "how")._replace(id="", when=None) for task in (one, other))
    return digest(bare) == digest(other_bare)


def runs_alike(one: Task, other: Task) -> bool:
    """Whether two tasks run under the same condition."""
    return (one.when.text.strip() if one.when else "") == (other.when.text.strip() if other.when else "")


def paths_read(value: Json) -> Iterator[tuple[str, ...]]:
    """The dotted names that expressions and templates read, anywhere inside a value."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Expression):
            yield from item.paths
        elif isinstance(item, str):
            if "{{" in item:
                yield from (found[0] for found in references(item))
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, (tuple, list)):
            todo.extend(item)
        elif isinstance(item, Struct):
            todo.extend(astuple(item))


class Difference(NamedTuple):
    """Something that two plans do not have in common: ``what`` (``task a/b``, ``edge a -> b``, ``param x``, ``budgets``
    …), ``change`` (added, removed or changed) and, for what is changed, each field with the value before and after."""

    what: str
    change: str
    fields: tuple[tuple[str, Json, Json], ...] = ()


def differences(old: Plan, new: Plan) -> list[Difference]:
    """What differs between two plans, in prose too: the plan itself first, then tasks with what they hold, then the
    edges between tasks."""
    found = _fields("plan", old, new, _PLAN_FIELDS)
    for name in ("budgets", "policy"):
        if _data(getattr(old, name)) != _data(getattr(new, name)):
            before, after = _data(getattr(old, name)), _data(getattr(new, name))
            change = "added" if not before else "removed" if not after else "changed"
            found.append(Difference(name, change, _members(getattr(old, name), getattr(new, name))))
    found += _named("param", {each.name: each for each in old.params}, {each.name: each for each in new.params})
    found += _named("output", {each.name: each for each in old.outputs}, {each.name: each for each in new.outputs})
    found += _named("gate for label", dict(old.gated), dict(new.gated))
    found += _tasks("", old.tasks, new.tasks)
    before, after = _edges("", old.tasks), _edges("", new.tasks)
    found += [Difference(f"edge {edge}", "added") for edge in after if edge not in before]
    found += [Difference(f"edge {edge}", "removed") for edge in before if edge not in after]
    return found


_APART = frozenset({"params", "tasks", "budgets", "outputs", "policy", "span", "gated", "file", "due"})
_PLAN_FIELDS = tuple(name for name in fields(Plan) if name not in _APART)
_SPOKEN = {"inputs": "with", "fanout": "foreach", "sub": "subplan", "finally_": "finally"}
_HELD = frozenset({"subplan", "needs", "edges", "id", "span", "spans", "script", "steps"})


def _fields(what: str, old: Json, new: Json, names: Iterable[str]) -> list[Difference]:
    changed = []
    for name in names:
        before, after = _data(getattr(old, name)), _data(getattr(new, name))
        if before != after:
            changed.append((_SPOKEN.get(name, name), before, after))
    return [Difference(what, "changed", tuple(changed))] if changed else []


def _members(old: Json, new: Json) -> tuple[tuple[str, Json, Json], ...]:
    before, after = _data(old) or {}, _data(new) or {}
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return (("", before, after),)
    names = [*before, *(name for name in after if name not in before)]
    return tuple((name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name))


def _named(kind: str, old: dict[str, Json], new: dict[str, Json]) -> list[Difference]:
    result = [Difference(f"{kind} {name}", "added") for name in new if name not in old]
    result += [Difference(f"{kind} {name}", "removed") for name in old if name not in new]
    for name, now in new.items():
        if name in old and (members := _members(old[name], now)):
            result.append(Difference(f"{kind} {name}", "changed", members))
    return result


def _tasks(prefix: str, old: Iterable[Task], new: Iterable[Task]) -> list[Difference]:
    before, after = {task.id: task for task in old}, {task.id: task for task in new}
    result = [Difference(f"task {prefix}{name}", "removed") for name in before if name not in after]
    for name, task in after.items():
        if name not in before:
            result.append(Difference(f"task {prefix}{name}", "added"))
            continue
        result += _own(f"task {prefix}{name}", before[name], task)
        result += _tasks(f"{prefix}{name}/", inside(before[name]), inside(task))
    return result


def _own(what: str, old: Task, new: Task) -> list[Difference]:
    """What differs in a task itself, without what it holds."""
    changed: list[tuple[str, Json, Json]] = []
    for name in fields(Task):
        if name not in _HELD:
            before, after = (_data(_emptied(_written(each, name))) for each in (old, new))
            if before != after:
                changed.append((_SPOKEN.get(name, name), before, after))
    return [Difference(what, "changed", tuple(changed))] if changed else []


def _written(task: Task, name: str) -> Json:
    """A field of a task; of the loop of an agent without what it carries, which follows from its prompt."""
    value = getattr(task, name)
    return value._replace(carry={}) if name == "loop" and task.agent is not None and value is not None else value


def _emptied(value: Json) -> Json:
    """A loop or a linked plan without its tasks."""
    return value._replace(tasks=()) if "tasks" in fields(value) else value


def _edges(prefix: str, tasks: Iterable[Task]) -> dict[str, None]:
    result: dict[str, None] = {}
    for task in tasks:
        result |= dict.fromkeys(f"{prefix}{need} -> {prefix}{task.id}" for need in task.needs)
        result |= {f"{prefix}{task.id} -> {prefix}{edge.target} on {edge.on}": None for edge in task.edges}
        result |= _edges(f"{prefix}{task.id}/", inside(task))
    return result


def _data(value: Json) -> Json:
    """A part of a plan as plain data, without places and without what is not written."""
    if isinstance(value, Expression):
        return value.text.strip()
    if fields(value):
        usual = defaults(value)
        return {
            _SPOKEN.get(name, name): _data(item)
            for name, item in value._asdict().items()
            if name not in ("span", "spans", "script") and item != usual.get(name, _data)
        }
    if isinstance(value, dict):
        return {str(name): _data(item) for name, item in value.items()}
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value
