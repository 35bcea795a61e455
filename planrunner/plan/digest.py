"""The identity of a plan: a hash over what it means, whatever its notation, layout, comments or order of inputs."""

from __future__ import annotations

import json
from typing import Any

from planrunner.lean import sha256
from planrunner.plan.model import Expression, Plan, Task

_PLACES = frozenset({"span", "spans", "script"})
"""Places, and what follows from other fields."""


def digest(plan: Plan) -> str:
    """``sha256:`` and 64 hexadecimal digits. The order of tasks counts, the order of keys in data does not."""
    return _hash(_meaning(plan))


def task_digest(task: Task) -> str:
    """The same for one task with everything inside it."""
    return _hash(_meaning(task))


def _hash(meaning: Any) -> str:
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + sha256(text.encode("ascii")).hexdigest()


def _meaning(value: Any) -> Any:
    """Data for the hash: of each record its name and those fields that differ from their defaults, without places.

    Leaving out defaults keeps the digest of old plans when the language gains a field.
    """
    kind = value.__class__
    if kind is str or kind is int or kind is float or value is None or kind is bool:
        return _number(value) if kind is float else value
    if kind is list:
        return [_meaning(item) for item in value]
    if kind is dict:
        return {name: _meaning(item) for name, item in value.items()}
    if kind is Expression:
        return {"Expression": value.text.strip()}
    fields = getattr(kind, "_fields", None)
    return [_meaning(item) for item in value] if fields is None else _record(kind, value)


def _record(kind: type, value: Any) -> Any:
    plan = _plans.get(kind)
    if plan is None:
        defaults = kind._field_defaults  # type: ignore[attr-defined]
        plan = _plans[kind] = [
            (at, name, defaults.get(name, _REQUIRED))
            for at, name in enumerate(kind._fields)  # type: ignore[attr-defined]
            if name not in _PLACES
        ]
    found = {}
    for at, name, default in plan:
        item = value[at]
        if item is not default and item != default:
            found[name] = _meaning(item)
    return {kind.__name__: found}


_REQUIRED = object()
_plans: dict[type, list[tuple[int, str, object]]] = {}


def _number(value: float) -> float | int:
    """``5.0`` and ``5`` are the same number in JSON and YAML alike."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
