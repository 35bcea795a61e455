"""How many tasks a tree holds, before any of them is looked at: lint keeps its bounds on memory by refusing more."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic
from planrunner.plan.linking import MAX_TASKS
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

_SHORTEST = 2
"""Characters that an item of a list has at least: one, and a comma."""
_LISTS = frozenset({"tasks", "finally", "subplan"})
"""Canonical keys of lists of tasks."""


def too_many(tree: Mapping, length: int) -> Diagnostic | None:
    """The finding about a plan with more than ``MAX_TASKS`` tasks, those inside others included; ``length`` is that of
    its text, because most are too short to have so many. Aliased tasks count as often as they stand."""
    if length < MAX_TASKS * _SHORTEST:
        return None
    count, waiting = 0, list[Node]([tree])
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sequence):
            waiting += [item for item in node.items if not isinstance(item, Scalar)]
        elif isinstance(node, Mapping):
            for key, value in node.entries:
                if isinstance(value, Sequence) and key.value in _LISTS:
                    count += len(value.items)
                if not isinstance(value, Scalar):
                    waiting.append(value)
        if count > MAX_TASKS:
            message = f"the plan has more than {MAX_TASKS:,} tasks"
            return Diagnostic("PLAN011", message, tree.span, help="split it, or let one task stand for many: `matrix`")
    return None
