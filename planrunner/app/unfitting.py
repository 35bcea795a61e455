"""Entries of the policies in a project's settings that deny or ask and can never fit."""

from __future__ import annotations

from collections.abc import Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.policy_checks import Known, misfits
from planrunner.plugins.registry import Registry
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, to_json
from planrunner.syntax.tree import Sequence as SequenceNode


def unfitting(tree: Node | None, project: str) -> Iterator[Diagnostic]:
    """The findings about one file of the settings, its profiles included."""
    policies = [*_policies(tree)]
    if not policies:
        return
    registry = Registry(project=project)
    known = Known(registry.find, registry.built_in, registry.names)
    for policy in policies:
        for found in misfits(to_json(policy), known):
            yield Diagnostic(found.code, found.message, _at(policy, found.path).span, help=found.help)


def _policies(tree: Node | None) -> Iterator[Node]:
    profiles = tree.get("profiles") if isinstance(tree, MappingNode) else None
    inside = [value for _, value in profiles.entries] if isinstance(profiles, MappingNode) else []
    for each in (tree, *inside):
        policy = each.get("policy") if isinstance(each, MappingNode) else None
        if policy is not None:
            yield policy


def _at(node: Node, path: tuple[str | int, ...]) -> Node:
    """The node that keys lead to, or the last one on the way that is there."""
    for key in path:
        if isinstance(node, SequenceNode) and isinstance(key, int):
            node = node.items[key]
        elif isinstance(node, MappingNode) and (inner := node.get(str(key))) is not None:
            node = inner
    return node
