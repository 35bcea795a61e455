"""Review windows: which gates wait together, and which are still to come."""

from __future__ import annotations

from typing import Any

import workbench
from simulator.gates import GateRun
from simulator.runs import RUN_ID

from planrunner.machine.events import Outcome, RetryScheduled
from planrunner.machine.evolve import fold
from planrunner.machine.questions import waiting_gates
from planrunner.machine.windows import shown, windows

plan = workbench.working_plan


def gate(name: str, *needs: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "needs": list(needs), "gate": "approval", "ask": f"Is {name} right?", "window": "w", **keys}


def opened(run: GateRun) -> dict[str, tuple[list[str], tuple[str, ...]]]:
    """The gates that wait in each window, and what is still to come."""
    found = windows(run.state, waiting_gates(run.state))
    return {name: ([run.state.specs[at].id for at in one.waiting], one.coming) for name, one in found.items()}


def test_gates_of_one_window_wait_together_and_each_is_approved_for_itself() -> None:
    run = GateRun(plan(gate("a"), gate("b"), gate("alone", window="other"), {"id": "after", "needs": ["a", "b"]}))
    assert opened(run) == {"w": (["a", "b"], ()), "other": (["alone"], ())}
    run.vote("a", shown=run.shown("a"))
    run.resume()
    assert opened(run)["w"] == (["b"], ())
    run.vote("b", shown=run.shown("b"))
    run.resume()
    assert run.statuses()["after"] == "completed"


def test_what_waits_for_people_itself_does_not_keep_a_window_open() -> None:
    policy = {"gates": {"prod": {"ask": "?", "window": "w"}}}
    run = GateRun(plan(gate("a"), gate("b"), gate("c", "a"), policy=policy))
    assert opened(run) == {"w": (["a", "b"], ())}
    run = GateRun(plan(gate("a"), policy=policy, **{"finally": [{"id": "last", "uses": "noop", "labels": ["prod"]}]}))
    assert opened(run) == {"w": (["a"], ())}


def test_a_gate_that_the_run_still_reaches_is_to_come() -> None:
    slow = {"id": "slow", "retry": {"attempts": 2, "delay": "1h"}}
    fan = {"id": "fan", "foreach": [1], "needs": ["slow"], "labels": ["prod"]}
    tasks = (gate("a"), slow, gate("b", "slow"), fan)
    policy = {"gates": {"prod": {"ask": "?", "window": "w"}}}
    run = GateRun(plan(*tasks, policy=policy), {"slow": [Outcome("transient", "gone", duration=1.0), Outcome()]})
    assert opened(run) == {"w": (["a", "b", "fan[0]"], ())}
    before = next(at for at, entry in enumerate(run.entries) if isinstance(entry.event, RetryScheduled))
    run.state = fold(run.plan, RUN_ID, run.entries[: before + 1])
    assert opened(run) == {"w": (["a"], ("b", "fan"))}


def test_labels_and_items_share_a_window() -> None:
    policy = {"gates": {"prod": {"ask": "Deploy?", "window": "w"}}}
    fan = {"id": "deploy", "foreach": ["web", "api"], "labels": ["prod"], "uses": "noop"}
    run = GateRun(plan(fan, {"id": "db", "uses": "noop", "labels": ["prod"]}, policy=policy))
    assert sorted(opened(run)["w"][0]) == ["db", "deploy[0]", "deploy[1]"]


def test_items_that_wait_for_an_earlier_one_are_not_waited_for() -> None:
    policy = {"gates": {"prod": {"ask": "Deploy?", "window": "w"}}}
    fan = {"id": "deploy", "foreach": [1, 2, 3], "max_parallel": 2, "labels": ["prod"], "uses": "noop"}
    run = GateRun(plan(fan, policy=policy))
    assert opened(run) == {"w": (["deploy[0]", "deploy[1]"], ())}


def test_a_window_shows_something_else_once_one_of_its_gates_does() -> None:
    run = GateRun(plan(gate("a"), gate("b")))
    (window,) = windows(run.state, waiting_gates(run.state)).values()
    before = shown(run.state, window)
    waiting = run.state.tasks[0].gate
    assert waiting is not None
    waiting.shown = "other"
    assert shown(run.state, window) != before
