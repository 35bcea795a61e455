"""What people filled into the form of a gate, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.machine.state import GateState
from planrunner.plan.expressions.quantities import format_duration, format_money, format_percent, format_size

Json = Any


_WRITTEN: dict[str, Callable[[Json], str]] = {
    "money": format_money,
    "size": format_size,
    "duration": format_duration,
    "percent": format_percent,
}


def answered(gate: GateState, fields: dict[str, Json]) -> str:
    """``answered amount=$10 and left note open``: values as the form would take them."""
    return filled_in(gate.request.get("form", ()), fields)


def filled_in(form: Sequence[Mapping[str, Json]], fields: Mapping[str, Json]) -> str:
    """The same of a form."""
    kinds = _kinds(form)
    given = [f"{name}={_text(kinds.get(name, 'any'), value)}" for name, value in fields.items() if value is not None]
    left = [name for name, value in fields.items() if value is None]
    parts = [f"answered {', '.join(given)}" if given else "", f"left {', '.join(left)} open" if left else ""]
    return " and ".join(part for part in parts if part)


def _kinds(form: Sequence[Mapping[str, Json]]) -> dict[str, str]:
    return {str(field["name"]): str(field.get("type", "any")) for field in form}


def _text(kind: str, value: Json) -> str:
    if kind in _WRITTEN and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _WRITTEN[kind](value)
    return value if isinstance(value, str) else stable_json(value)


def comment(gate: GateState, outputs: Mapping[str, Json]) -> str:
    """What those who decided said: their reason, and what they wrote into the form; else the option that they chose."""
    kinds = _kinds(gate.request.get("form", ()))
    written = {name: _text(kind, outputs[name]) for name, kind in kinds.items() if outputs.get(name) not in (None, "")}
    fields = [text if len(kinds) == 1 else f"{name}={text}" for name, text in written.items()]
    said = "; ".join(filter(None, (gate.reason, ", ".join(fields))))
    choice = outputs.get("choice")
    return said or (f"`{choice}` was chosen" if choice else "")
