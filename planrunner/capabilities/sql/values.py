"""Values on their way in, as parameters beside a statement, and on their way out, as JSON data."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.sql.text import pieces

_VALUE = re.compile(r"(?P<in>\b(?P<not>not\s+)?in\s+)?(?<![:\w]):(?P<name>[A-Za-z_]\w*)", re.IGNORECASE)


class Bound(NamedTuple):
    """A statement for the driver, and the values beside it."""

    text: str
    values: dict[str, Any]


def bound(statement: str, dialect: str, params: dict[str, Any]) -> Bound:
    """Hand values to the driver: ``:name`` in the code of a statement, not in its strings and comments, is the value of
    that name. Raises Failure for names without a value and values without a name."""
    binder = _Binder(dialect, params)
    text = "".join(binder.code(piece.text) if piece.kind == "code" else binder.plain(piece.text)
                   for piece in pieces(statement, dialect))  # fmt: skip
    if missing := sorted(binder.named - params.keys()):
        raise Failure(f"the statement has no value for {', '.join(f'`:{name}`' for name in missing)}")
    if unused := sorted(params.keys() - binder.named):
        raise Failure(f"the statement does not use {', '.join(f'`:{name}`' for name in unused)}")
    return Bound(text, binder.values)


class _Binder:
    """Rewrites the names of values into those of a driver: ``:x`` for SQLite, ``%(x)s`` for PostgreSQL."""

    __slots__ = ("_params", "_postgresql", "named", "values")

    def __init__(self, dialect: str, params: dict[str, Any]) -> None:
        self._postgresql = dialect == "postgresql"
        self._params = params
        self.named: set[str] = set()
        self.values: dict[str, Any] = {}

    def plain(self, text: str) -> str:
        return text.replace("%", "%%") if self._postgresql else text

    def code(self, text: str) -> str:
        return _VALUE.sub(self._place, self.plain(text))

    def _place(self, found: re.Match[str]) -> str:
        name, after_in = found["name"], found["in"] or ""
        self.named.add(name)
        value = self._params.get(name)
        if not isinstance(value, list):
            return after_in + self._mark(name, json.dumps(value) if isinstance(value, dict) else value)
        if not after_in:
            if not self._postgresql:
                raise Failure(f"`:{name}` is a list, which SQLite takes after IN alone")
            return self._mark(name, value)
        if not value and self._postgresql:  # an empty list in brackets is no SQL there
            return ("<> ALL (" if found["not"] else "= ANY (") + self._mark(name, "{}") + ")"
        marks = [self._mark(self._free(f"{name}__{number}"), each) for number, each in enumerate(value)]
        return f"{after_in}({', '.join(marks)})"

    def _free(self, name: str) -> str:
        """A name for a part of a list, which no value of the task has."""
        while name in self._params:
            name += "_"
        return name

    def _mark(self, name: str, value: Any) -> str:
        self.values[name] = value
        return f"%({name})s" if self._postgresql else f":{name}"


def data(value: Any) -> Any:
    """A value of a database as JSON data: decimals, dates, UUIDs and the like as text, bytes in base64, infinity and
    not-a-number as text too."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [data(item) for item in value]
    if hasattr(value, "total_seconds"):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
