"""The operator's levels of policy: what ``policy:`` of the user's file, of the project and of its profile say, as it is
recorded with a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.plan import compiled, lower_policy
from planrunner.plan.lower_parts import budgets
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Budgets, Plan
from planrunner.plan.rights import Level
from planrunner.safety.project import read_settings
from planrunner.syntax.tree import Mapping

if TYPE_CHECKING:
    from planrunner.syntax.tree import Node

Json = Any


def policy_records(directory: str) -> list[dict[str, Json]]:
    """The levels that hold in a directory: ``name``, ``file``, ``policy`` as data, and under ``limits`` the budgets and
    the gates for labels as a compiled plan. Raises as ``read_data`` does."""
    found = []
    for said in read_settings(directory).levels:
        limits = _limits(said.tree)
        record: dict[str, Json] = {"name": said.name, "file": said.file, "policy": said.data}
        found.append(record if limits is None else {**record, "limits": limits})
    return found


def levels(records: list[dict[str, Json]]) -> tuple[Level, ...]:
    """Levels from their records."""
    return tuple(Level(record["name"], record["policy"], record.get("file", "")) for record in records)


def _limits(node: Node) -> str | None:
    low = Lowering([])
    caps = node.get("budgets") if isinstance(node, Mapping) else None
    most = Budgets() if caps is None else budgets(low, caps, Budgets())
    gated = lower_policy.gated(low, node)
    if not gated and most == Budgets():
        return None
    return compiled.dump(Plan("policy", budgets=most, gated=gated))
