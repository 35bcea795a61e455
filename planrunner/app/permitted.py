"""Whether the operator's policy lets a plan start at all: what no value of a template can make right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.errors import Denied
from planrunner.plan.access import Ground, refused_tasks
from planrunner.plan.policy_checks import refusal
from planrunner.plan.rights import Level

if TYPE_CHECKING:
    from planrunner.plan.model import Plan


def refuse_denied(plan: Plan, levels: tuple[Level, ...], path: str, ground: Ground, digest: str) -> None:
    """Raise Denied, with every refusal, for a plan of which some task can never run under these levels; the rule is
    that of the first."""
    found = list(refused_tasks(plan, levels, ground))
    if found:
        listed = "\n".join(f"  `{name}`: {refusal(wanted, right)}" for name, _, wanted, right in found)
        message = f"policy does not let `{path}` start\n{listed}"
        raise Denied(message, f"planrunner policy explain {path}", found[0][-1].rule, path, digest)
