"""What the requests of an attempt used together."""

from __future__ import annotations

from typing import Any, NamedTuple

Json = Any


class Usage(NamedTuple):
    """Tokens in and out, and dollars; None stands for what is not known."""

    input: int | None
    output: int | None
    cost: float | None


def usage_of(attempts: list[dict[str, Json]]) -> Usage:
    """What all requests used together; what one of them does not tell is not known of all."""
    used = [each["usage"] for each in attempts]
    if None in used:
        return Usage(None, None, None)
    cost = None if any(each["cost"] is None for each in used) else round(sum(each["cost"] for each in used), 9)
    return Usage(sum(each["input"] for each in used), sum(each["output"] for each in used), cost)
