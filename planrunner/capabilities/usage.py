"""What an attempt spent: cost in dollars, tokens, calls, as a process or a function told it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.durations import money
from planrunner.capabilities.outputs import read_output_file
from planrunner.machine.ledger import SPENDABLE, units

Json = Any


_counting = threading.Lock()


def count_call(context: Context) -> None:
    """Count a request that goes out now. Raises Failure (budget) where the attempt has set aside no call for it."""
    with _counting:  # a capability may ask from several threads
        require_calls(context, _called(context) + 1)
        context.spend(calls=1)


def may_call(context: Context) -> bool:
    """Whether the attempt has set aside a call for another request."""
    limit = context.call.reserved.get("calls")
    return limit is None or _called(context) < limit


def _called(context: Context) -> int:
    return int(context.log.usage.get("calls", 0))


def require_calls(context: Context, wanted: int) -> None:
    """Raises Failure (budget) where the attempt has not set aside as many calls as it wants in all."""
    limit = context.call.reserved.get("calls")
    if limit is not None and wanted > limit:
        said = f"the attempt has set aside {limit:g} call{'s' if limit != 1 else ''} and would need {wanted}"
        raise Failure(f"{said}: say `budgets: {{calls: {wanted}}}` on the task", "budget")


def read_usage(path: str) -> dict[str, Json]:
    """What stands in the file named by ``PLANRUNNER_USAGE``, which is then removed: JSON objects or ``key=value``
    lines. A file that cannot be read tells nothing."""
    try:
        return known(read_output_file(path))
    except Failure:
        return {}


def known(told: Mapping[str, Json]) -> dict[str, Json]:
    """The part of it that means something: text is read as a number (cost also as ``$0.05``); what is no amount is left
    out, and so counts as all that was set aside."""
    found = {what: _amount(what, told[what]) for what in SPENDABLE if what in told}
    return {what: value for what, value in found.items() if units(what, value) is not None}


def _amount(what: str, value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        return money(value) if what == "cost" else float(value)
    except ValueError:
        return None
