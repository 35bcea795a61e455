"""What holds a run in: the operator's levels of policy, and the plan as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.plan.model import Plan
    from planrunner.plan.rights import Level


class Governed(NamedTuple):
    """``plan`` is the plan without what the operator adds; ``levels`` are the operator's."""

    plan: Plan
    levels: tuple[Level, ...]
