"""``else`` stands on edges of every key, in both notations, and not beside a condition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planrunner.plan.load import Loaded, load
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def loaded(key: str, edge: dict[str, Any]) -> Loaded:
    tasks = [{"id": "a", "run": "true", key: [edge]}, {"id": "b", "run": "true"}]
    text = json.dumps({"plan": "p", "defaults": {"timeout": "1h"}, "tasks": tasks})
    return load(Source(text, "p.json", "json"), Registry())


@pytest.mark.parametrize("key", ["next", "on_success", "on_failure"])
def test_an_edge_of_every_key_takes_else(key: str) -> None:
    plan = loaded(key, {"to": "b", "else": True}).plan
    assert plan is not None
    assert [edge.otherwise for edge in plan.tasks[0].edges] == [True]


@pytest.mark.parametrize("key", ["next", "on_success", "on_failure"])
def test_else_does_not_stand_beside_a_condition(key: str) -> None:
    found = loaded(key, {"to": "b", "else": True, "when": "true"})
    assert found.plan is None
    assert any("`else`" in finding.message and "`when`" in finding.message for finding in found.findings)
