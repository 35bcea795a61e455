"""What somebody filled the form of a gate with, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planrunner.jsontext import stable_json
from planrunner.plan.expressions.quantities import format_duration, format_money, format_percent, format_size

if TYPE_CHECKING:
    from planrunner.machine.gate import GateState

Json = Any

_WRITTEN: dict[str, Callable[[Json], str]] = {
    "money": format_money,
    "size": format_size,
    "duration": format_duration,
    "percent": format_percent,
}


def answered(gate: GateState, fields: dict[str, Json]) -> str:
    """``answered amount=$10 and left note open``: values as the form would take them."""
    kinds = {str(field["name"]): str(field.get("type", "any")) for field in gate.request.get("form", ())}
    given = [f"{name}={_text(kinds.get(name, 'any'), value)}" for name, value in fields.items() if value is not None]
    left = [name for name, value in fields.items() if value is None]
    parts = [f"answered {', '.join(given)}" if given else "", f"left {', '.join(left)} open" if left else ""]
    return " and ".join(part for part in parts if part)


def _text(kind: str, value: Json) -> str:
    if kind in _WRITTEN and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _WRITTEN[kind](value)
    return value if isinstance(value, str) else stable_json(value)
