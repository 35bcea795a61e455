"""What agents spend stays below every limit around them, however many work side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench
from scripted import Heard

Json = Any
Make = Callable[..., Bench]

REQUEST = {"cost": 0.00014, "tokens": 120, "calls": 1}
"""What the scripted model charges for a request."""


def two_rounds(heard: Heard) -> Json:
    """A model that looks once, and then answers."""
    return "Done." if any(role == "tool" for role, _ in heard.turns) else [("files_glob", {"patterns": ["*.none"]})]


@pytest.mark.parametrize(
    ("what", "cap", "each"), [("cost", "$0.012", "$0.2"), ("tokens", "12k", "200k"), ("calls", "60", "200")]
)
def test_fifty_agents_side_by_side_never_exceed_one_cap(make: Make, what: str, cap: str, each: str) -> None:
    bench = make(two_rounds)
    told = bench.run(f"""
plan: many
budgets: {{{what}: {cap}}}
max_parallel: 50
on_failure: continue
tasks:
  - id: look
    foreach: {list(range(50))}
    as: n
    agent: coder
    prompt: "Look at {{{{ n }}}}."
    tools: [files.glob]
    tolerate: 100%
    budgets: {{{what}: {each}}}
""")
    spent = told["budget"][what]
    requests = len(bench.model.heard)
    assert requests * REQUEST[what] == pytest.approx(spent["used"])
    assert requests * REQUEST[what] <= spent["limit"]
    ends = {told["tasks"][f"look[{n}]"]["status"] for n in range(50)}
    assert "completed" in ends and len(ends) > 1, ends
    assert _most_at_any_event(bench, what) <= spent["limit"]


def _most_at_any_event(bench: Bench, what: str) -> float:
    """The most that was spent and reserved together."""
    spent, reserved, most = 0.0, dict[str, float](), 0.0
    for line in bench.call("events", "last", "--json").stdout.splitlines():
        event = json.loads(line)
        if event["type"] == "attempt_started":
            reserved[event["task"]] = (event.get("reserved") or {}).get(what, 0.0)
        if event["type"] == "attempt_ended":
            reserved.pop(event["task"], None)
            spent += ((event.get("outcome") or {}).get("spent") or {}).get(what, 0.0)
        most = max(most, spent + sum(reserved.values()))
    assert most > 0
    return most
