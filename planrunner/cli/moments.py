"""Times as people type them: a duration; a point of time as how long ago, or a date."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import click

from planrunner.plan.expressions.quantities import parse_duration


class Lasting(click.ParamType[float]):
    """Seconds of ``90m`` or ``1d``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = parse_duration(value)
        if found is None:
            self.fail(f"`{value}` is no duration: write `90m`, `12h` or `7d`", param, ctx)
        return float(found)


class Moment(click.ParamType[float]):
    """Seconds since 1970 of ``2h`` (ago), ``2026-11-20`` or ``2026-11-20T14:30``; without a zone it is local time."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        ago = parse_duration(value)
        if ago is not None:
            return time.time() - ago
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"`{value}` is no time: write how long ago, as `90m`, or a date, as `2026-11-20T14:30`", param, ctx
            )
