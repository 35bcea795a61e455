"""What all undos here have in common: an attempt that did nothing leaves nothing to take back, whatever others did."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import slot

Before = dict[str, Any]
Outputs = dict[str, Any] | None

_PASSING = ("transient", "timeout", "cancelled")


def looking(capture: Callable[..., Before]) -> Callable[..., Before]:
    """Make of a function the ``capture`` of a capability: what the attempt itself will refuse, with a class of its own,
    is left to it. What may pass is raised, since another look may do."""

    @functools.wraps(capture)
    def looked(context: Context, **inputs: Any) -> Before:
        try:
            return capture(context, **inputs)
        except Failure as failure:
            if failure.failure in _PASSING:
                raise
            return {"slot": slot(context), "late": str(failure)}

    return looked


def taking_back(
    undo: Callable[[Context, Before, Outputs], bool],
) -> Callable[[Context, Before, Outputs], dict[str, Any]]:
    """Make of a function the ``undo`` of a capability. It answers whether there was something to take back."""

    @functools.wraps(undo)
    def taken_back(context: Context, before: Before, outputs: Outputs) -> dict[str, Any]:
        if "late" not in before:
            return {"changed": undo(context, before, outputs)}
        if outputs is None and not any(Record(context, before["slot"] + part).read() for part in ("", "-branch")):
            return {"changed": False}
        raise Failure(f"what stood here before was not seen, so it is left as it is now: {before['late']}")

    return taken_back
