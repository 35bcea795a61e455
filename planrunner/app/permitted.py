"""Whether the operator's policy lets a plan start at all: what no value of a template can make right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.errors import Denied
from planrunner.plan.judging import refusal
from planrunner.plan.standing import refused_tasks

if TYPE_CHECKING:
    from planrunner.plan.model import Plan
    from planrunner.plan.rights import Level
    from planrunner.plan.touching import Ground


def refuse_denied(plan: Plan, levels: tuple[Level, ...], path: str, ground: Ground) -> None:
    """Raise Denied, with every refusal, for a plan of which some task can never run under these levels."""
    said = [f"`{name}`: {refusal(wanted, right)}" for name, _, wanted, right in refused_tasks(plan, levels, ground)]
    if said:
        listed = "\n".join(f"  {line}" for line in said)
        raise Denied(f"policy does not let `{path}` start\n{listed}", f"planrunner policy explain {path}")
