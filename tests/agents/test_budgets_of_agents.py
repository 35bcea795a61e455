"""What agents spend stays below every limit around them, however many work side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import Heard

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


def test_a_lost_reply_costs_one_request_and_is_tried_again_within_what_is_left(make: Make) -> None:
    bench = make([{"cut": True}, {"raw": "no json"}, "Done."])
    told = bench.run(ONE)
    assert told["status"] == "completed"
    worst = [_worst(heard) for heard in bench.model.heard[:2]]
    spent = told["tasks"]["look"]["budget"]
    assert spent["cost"]["used"] == pytest.approx(sum(cost for cost, _ in worst) + REQUEST["cost"])
    assert spent["tokens"]["used"] == sum(tokens for _, tokens in worst) + REQUEST["tokens"]
    assert spent["calls"]["used"] == 3
    assert _most_at_any_event(bench, "cost") <= 0.1
    assert bench.call("replay", "last").returncode == 0


def test_replies_that_are_always_lost_end_the_task_for_that_and_not_for_its_budget(make: Make) -> None:
    bench = make([{"cut": True}])
    told = bench.run(ONE)
    assert (told["tasks"]["look"]["failure"], told["exit_code"]) == ("transient", 1)
    assert len(bench.model.heard) == 3


def test_what_is_left_bounds_what_is_tried_again_and_the_run_says_so(make: Make) -> None:
    bench = make([{"cut": True}])
    told = bench.run(ONE.replace("$0.1", "$0.005"))
    assert (told["tasks"]["look"]["failure"], told["exit_code"]) == ("budget", 6)
    assert told["tasks"]["look"]["budget"]["cost"]["used"] <= 0.005
    assert _most_at_any_event(bench, "cost") <= 0.005


ONE = """
plan: one
tasks:
  - id: look
    agent: coder
    prompt: Look.
    tools: [files.glob]
    budgets: {cost: $0.1}
"""


def _worst(heard: Heard) -> tuple[float, int]:
    """Dollars and tokens that a request may have used: a token a byte and an allowance in, the longest reply out."""
    into = len(json.dumps(heard.body, separators=(",", ":"), ensure_ascii=False).encode()) + 1024
    out = heard.body["max_tokens"]
    return (into + 2 * out) / 1e6, into + out


def _most_at_any_event(bench: Bench, what: str) -> float:
    """The most that was spent and reserved together."""
    spent, reserved, most = 0.0, dict[str, float](), 0.0
    for line in bench.call("events", "last", "--json").stdout.splitlines():
        event = json.loads(line)
        if event["type"] == "attempt_started":
            reserved[event["task"]] = (event.get("reserved") or {}).get(what, 0.0)
        if event["type"] == "attempt_ended":
            held = reserved.pop(event["task"], 0.0)
            spent += event["outcome"]["usage"].get(what, held)
        most = max(most, spent + sum(reserved.values()))
    assert most > 0
    return most


ASKED = """
plan: p
budgets: {calls: LEFT}
tasks:
  - id: a
    uses: llm.complete
    timeout: 1m
    with: {prompt: x, schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]}}
"""


def test_a_budget_of_calls_of_the_plan_leaves_room_to_ask_again(make: Make) -> None:
    bench = make(["no json", "no json", '{"ok": true}'])
    told = bench.run(ASKED.replace("LEFT", "5"))
    assert (told["status"], len(bench.model.heard)) == ("completed", 3), told["tasks"]["a"]
    assert told["budget"]["calls"] == {"used": 3, "reserved": 0, "limit": 5}


def test_where_fewer_calls_are_left_fewer_are_made(make: Make) -> None:
    bench = make(lambda heard: "no json")
    told = bench.run(ASKED.replace("LEFT", "2"))
    assert (told["tasks"]["a"]["failure"], len(bench.model.heard)) == ("schema", 2)


def test_what_asks_once_sets_one_call_aside(make: Make) -> None:
    bench = make(lambda heard: "Done.")
    told = bench.run(
        "plan: p\nbudgets: {calls: 4}\nmax_parallel: 4\ntasks:\n"
        "  - {id: a, foreach: [1, 2, 3, 4], uses: llm.complete, timeout: 1m, with: {prompt: x}}\n"
    )
    assert (told["status"], len(bench.model.heard)) == ("completed", 4), told
