"""Whether a run of a plan has to look out for foreign text at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.plan.model import Capability, Plan
from planrunner.plan.taint.findings import near, written_code
from planrunner.plan.taint.flow import Flow
from planrunner.plan.taint.known import known, row


def watched(plan: Plan, capabilities: Mapping[str, Capability | None]) -> dict[str, dict[str, Any]]:
    """What a run of a plan has to know of its capabilities, by name: empty where foreign text comes to nothing that
    acts and to no file of code, whoever looks at it before. Where it does none is empty, so that the record says so."""
    rows = {name: row(found) for name, found in capabilities.items() if found is not None}
    flow = Flow(plan, {name: known(found) for name, found in rows.items()})
    for place in flow.levels.every():
        if near(flow, place):
            break
    else:
        if not written_code(flow):
            return {}
    return {name: found or {"foreign": []} for name, found in rows.items()}
