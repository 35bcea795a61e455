"""Gates and instructions are held to their own criteria, and give the outputs that they declare."""

from __future__ import annotations

from typing import Any

from rows import rows
from simulator.gates import GateRun
from simulator.runs import RUN_ID
from workbench import plan

from planrunner.engine.replay import replay

KINDS: dict[str, dict[str, Any]] = {
    "gate": {"gate": "approval", "ask": "Go on?"},
    "instruction": {"command": "water the plants"},
}


def decided(**keys: Any) -> GateRun:
    """A run whose one task was approved by bo."""
    document = plan({"id": "t", **keys}, params={"a": {"type": "string"}})
    run = GateRun(document, params={"a": "hello"})
    assert run.vote("t").applied
    run.resume()
    assert replay(run.plan, RUN_ID, run.entries).difference is None
    return run


@rows("kind", KINDS)
@rows("key", ["expect", "postconditions", "validation"])
def test_a_criterion_that_does_not_hold_fails_what_people_approved(kind: str, key: str) -> None:
    run = decided(**KINDS[kind], **{key: ["outputs.by == 'ana'"]})
    assert (run.state.status, run.statuses()) == ("failed", {"t": "failed"})
    assert "outputs.by" in run.state.tasks[0].detail


@rows("kind", KINDS)
def test_a_criterion_that_holds_lets_it_complete(kind: str) -> None:
    assert decided(**KINDS[kind], expect=["outputs.by == 'bo'"]).statuses() == {"t": "completed"}


@rows("kind", KINDS)
def test_a_failure_mode_that_is_detected_fails_it_under_its_name(kind: str) -> None:
    run = decided(**KINDS[kind], failure_modes=[{"name": "hasty", "detect": "outputs.by == 'bo'"}])
    assert (run.state.tasks[0].status, run.state.tasks[0].failure) == ("failed", "hasty")


def test_a_criterion_of_a_gate_in_words_is_asked_about_after_the_decision() -> None:
    run = decided(**KINDS["gate"], expect=["the tests were read"])
    assert run.statuses() == {"t": "blocked"}
    assert run.vote("t").applied
    assert run.resume().statuses() == {"t": "completed"}


@rows("kind", KINDS)
def test_outputs_by_a_value_are_filled_in(kind: str) -> None:
    run = decided(**KINDS[kind], outputs={"x": "{{ params.a }}", "who": "{{ outputs.by }}!"})
    assert {name: run.outputs("t")[name] for name in ("x", "who", "decision")} == {
        "x": "hello",
        "who": "bo!",
        "decision": "approved",
    }


@rows("kind", KINDS)
def test_an_output_without_a_value_fails_the_task(kind: str) -> None:
    run = decided(**KINDS[kind], outputs={"n": {"type": "int", "value": "{{ params.a }}"}})
    assert run.statuses() == {"t": "failed"}
    assert "an output has no value" in run.state.tasks[0].detail


def test_whoever_is_asked_to_do_something_reads_what_it_comes_with() -> None:
    run = GateRun(plan({"id": "t", **KINDS["instruction"], "with": {"pot": "{{ 1 + 1 }}"}}))
    gate = run.state.tasks[0].gate
    assert gate is not None
    assert gate.request["inputs"] == {"with": {"pot": 2}}
