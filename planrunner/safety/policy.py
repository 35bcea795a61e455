"""The operator's levels of policy: what ``policy:`` of the project's file says, as it is recorded with a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.plan import compiled, lower_policy
from planrunner.plan.lower_parts import budgets
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Budgets, Plan
from planrunner.plan.rights import Level
from planrunner.safety.project import FILE, check_project, read_data
from planrunner.syntax.tree import Mapping

if TYPE_CHECKING:
    from planrunner.syntax.tree import Node

Json = Any


def policy_records(directory: str) -> list[dict[str, Json]]:
    """The levels of the project in a directory: ``name``, ``file``, ``policy`` as data, and under ``limits`` the
    budgets and the gates for labels as a compiled plan. Raises as ``read_data`` does."""
    data = read_data(directory).get("policy")
    if not data:
        return []
    record: dict[str, Json] = {"name": FILE, "file": FILE, "policy": data}
    found = check_project(directory)
    node = found.tree.get("policy") if found is not None and isinstance(found.tree, Mapping) else None
    limits = None if node is None else _limits(node)
    return [record if limits is None else {**record, "limits": limits}]


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
