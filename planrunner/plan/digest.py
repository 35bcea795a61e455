"""The identity of a plan: a hash over what it means, whatever its notation, layout, comments or order of inputs."""

from __future__ import annotations

from hashlib import sha256
from itertools import compress
from operator import is_not
from typing import Any

from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import joined, stable_json
from planrunner.plan.model import Expression, Plan, Task

_PLACES = frozenset({"span", "spans", "script", "file", "axes", "due", "due_in"})
"""Places, and what follows from other fields."""


def digest(plan: Plan) -> str:
    """``sha256:`` and 64 hexadecimal digits. The order of tasks counts, the order of keys in data does not."""
    return _hash(plan)


def task_digest(task: Task) -> str:
    """The same for one task with everything inside it."""
    return _hash(task)


def _hash(value: Any) -> str:
    return "sha256:" + sha256(_meaning(value).encode("ascii")).hexdigest()


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
    return _record(kind, value) if hasattr(kind, "_fields") else stable_json(value)


def _record(kind: type, value: Any) -> str:
    names, defaults, numbers = _plans.get(kind) or _plan(kind)
    parts = []
    for at in compress(numbers, map(is_not, value, defaults)):
        item = value[at]
        if names[at] and item != defaults[at]:
            parts.append(names[at] + (_text(item) if item.__class__ is str else _meaning(item)))
    parts.sort()  # they begin with their names in quotes
    return joined(f'{{"{kind.__name__}":{{', parts, "}}")


def _plan(kind: Any) -> _Plan:
    names = ["" if name in _PLACES else f'"{name}":' for name in kind._fields]
    defaults = [kind._field_defaults.get(name, _REQUIRED) for name in kind._fields]
    _plans[kind] = names, defaults, range(len(names))
    return _plans[kind]


_Plan = tuple[list[str], list[object], range]
"""How the fields of a kind of record begin in JSON (empty for what is left out), their defaults and their numbers."""
_REQUIRED = object()
_plans: dict[type, _Plan] = {}


def _number(value: float) -> str:
    """``5.0`` and ``5`` are the same number in JSON and YAML alike."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else stable_json(value)
