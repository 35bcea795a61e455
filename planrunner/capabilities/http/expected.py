"""What makes an answer a good one: its status, and the schema of its data."""

from __future__ import annotations

from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.jsonschema import faults, require_schema
from planrunner.jsontext import shown
from planrunner.plan.http_forms import parse_status

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes of faults that may pass."""


class Expected(NamedTuple):
    """Ranges of good status codes, first and last, and the schema (None: any data)."""

    ranges: tuple[tuple[int, int], ...]
    schema: Any = None

    def good(self, status: int) -> bool:
        return any(first <= status <= last for first, last in self.ranges)


def expected_of(status: Any, schema: Any) -> Expected:
    """Read `expect_status` and `expect_schema`."""
    wanted = ["2xx"] if status is None else status if isinstance(status, list) else [status]
    if schema is not None:
        require_schema(schema, "expect_schema")
    return Expected(tuple(status_range(each, "expect_status") for each in wanted), schema)


def status_range(value: Any, name: str) -> tuple[int, int]:
    """`204`, `2xx` or `200-299` as first and last code. Raises Failure for anything else."""
    found = parse_status(value)
    if found is None:
        raise Failure(f"`{name}` must be a status such as 200, `2xx` or `200-299`, found {shown(value)}")
    return found


def check_schema(schema: Any, data: Any) -> str:
    """Where the data does not fit, in a sentence; empty where it fits."""
    found = faults(schema, data)
    return "; ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
