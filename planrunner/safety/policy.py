"""The operator's levels of policy: what ``policy:`` of the user's file, of the project and of its profile say, as it is
recorded with a run."""

from __future__ import annotations

import os
from typing import Any

from planrunner.plan import compiled
from planrunner.plan.lower import declarations
from planrunner.plan.lower.declarations import budgets
from planrunner.plan.lower.values import Lowering
from planrunner.plan.model import Budgets, Plan
from planrunner.plan.rights import Level
from planrunner.safety.project import FILE, read_settings
from planrunner.syntax.tree import Mapping, Node

Json = Any

_STRICTER = ("allow", "ask", "deny")


def policy_records(directory: str) -> list[dict[str, Json]]:
    """The levels that hold in a directory: ``name``, ``file``, ``policy`` as data, and under ``limits`` the budgets and
    the gates for labels as a compiled plan. Raises as ``read_data`` does."""
    found = []
    for said in read_settings(directory).levels:
        limits = _limits(said.tree)
        record: dict[str, Json] = {"name": said.name, "file": said.file, "policy": said.data}
        found.append(record if limits is None else {**record, "limits": limits})
    return found


def records_of(directory: str, elsewhere: str, foreign: bool) -> list[dict[str, Json]]:
    """The levels of a run's directory and of the one that it was started from. Where the plan is ``foreign`` its own
    settings are no operator's: by their name they narrow and never let in more. What holds everywhere, such as the
    user's file, counts once. Empty texts stand for places without settings."""
    found: list[dict[str, Json]] = []
    for place in filter(None, (directory, elsewhere)):
        for record in policy_records(place):
            if not os.path.isabs(record["name"]):
                record |= _renamed(record["name"], place, place == directory and foreign, place != directory)
            if record not in found:
                found.append(record)
    return found


def _renamed(name: str, place: str, foreign: bool, elsewhere: bool) -> dict[str, Json]:
    path = os.path.join(place, FILE)
    if foreign:
        return {"name": f"the plan's {name}", "file": path}
    return {"name": path, "file": path} if elsewhere else {}


def asks_inside(directory: str) -> bool:
    """Whether somebody is to be asked about plans of the project itself."""
    return said_of_plans(directory, "inside") == "ask"


def said_of_plans(directory: str, origin: str) -> str:
    """What ``plans`` of the policies says of those from ``inside`` or ``outside``: allow, ask or deny, the strictest of
    all levels, empty where none says anything. Raises as ``read_data``."""
    given = [level.data.get("plans") for level in read_settings(directory).levels if isinstance(level.data, dict)]
    said = [plans[origin] for plans in given if isinstance(plans, dict) and plans.get(origin) in _STRICTER]
    return max(said, key=_STRICTER.index, default="")


def levels(records: list[dict[str, Json]]) -> tuple[Level, ...]:
    """Levels from their records."""
    return tuple(Level(record["name"], record["policy"], record.get("file", "")) for record in records)


def _limits(node: Node) -> str | None:
    low = Lowering([])
    caps = node.get("budgets") if isinstance(node, Mapping) else None
    most = Budgets() if caps is None else budgets(low, caps, Budgets())
    gated = declarations.gated(low, node)
    if not gated and most == Budgets():
        return None
    return compiled.dump(Plan("policy", budgets=most, gated=gated))
