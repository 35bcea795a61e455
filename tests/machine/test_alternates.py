"""Failures and what stands in for them: alternates in their order, failure modes, and people as one of the ways."""

from __future__ import annotations

from typing import Any

from simulator.rehearsal import rehearse
from workbench import plan

from planrunner.machine.events import Outcome
from planrunner.plan.model import Plan

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
FLAKY = Outcome("transient", "try later", duration=1.0)
POLICY = Outcome("policy", "not allowed", duration=1.0)


def with_alternates(**keys: Any) -> Plan:
    ways = [{"to": name, "recovers": True} for name in ("mirror", "cache", "stub")]
    return plan(
        {"id": "fetch", "run": "x", "on_failure": ways, "outputs": {"from": "string"}},
        *({"id": name, "run": "x", "outputs": {"from": "string"}} for name in ("mirror", "cache", "stub")),
        {"id": "use", "run": "x", "needs": ["fetch"], "when": "tasks.fetch.outputs.from != ''"},
        **keys,
    )


def gave(name: str) -> Outcome:
    return Outcome(outputs={"from": name}, exit_code=0, duration=1.0)


def test_the_first_alternate_that_completes_stands_in_and_the_others_are_not_tried() -> None:
    ran = rehearse(with_alternates(), {"fetch": [BAD], "mirror": [gave("mirror")]})
    assert ran.order == ["fetch", "mirror", "use"]
    assert ran.state.tasks[0].recovered_by == "mirror"
    assert ran.statuses()["cache"] == "omitted"
    assert ran.state.status == "completed"


def test_a_failed_alternate_leads_to_the_next_one_and_is_no_failure_of_the_run() -> None:
    ran = rehearse(with_alternates(), {"fetch": [BAD], "mirror": [BAD], "cache": [gave("cache")]})
    assert ran.order == ["fetch", "mirror", "cache", "use"]
    assert (ran.state.tasks[0].recovered_by, ran.state.tasks[0].outputs) == ("cache", {"from": "cache"})
    assert (ran.statuses()["mirror"], ran.state.status) == ("failed", "completed")


def test_where_every_alternate_fails_the_failure_stands() -> None:
    ran = rehearse(with_alternates(), {name: [BAD] for name in ("fetch", "mirror", "cache", "stub")})
    assert ran.order == ["fetch", "mirror", "cache", "stub"]
    assert ran.statuses()["use"] == "omitted"
    assert ran.state.status == "failed"


def test_what_needs_a_failed_alternate_does_not_run() -> None:
    base = with_alternates()
    after = plan({"id": "after", "run": "x", "needs": ["mirror"]}, {"id": "mirror", "run": "x"}).tasks[0]
    ran = rehearse(
        base._replace(tasks=(*base.tasks, after)), {"fetch": [BAD], "mirror": [BAD], "cache": [gave("cache")]}
    )
    assert ran.statuses()["after"] == "omitted"


def test_an_alternate_may_have_alternates_of_its_own() -> None:
    spec = plan(
        {"id": "a", "run": "x", "on_failure": [{"to": "b", "recovers": True}, {"to": "d", "recovers": True}]},
        {"id": "b", "run": "x", "on_failure": {"to": "c", "recovers": True}},
        {"id": "c", "run": "x"},
        {"id": "d", "run": "x"},
    )
    ran = rehearse(spec, {"a": [BAD], "b": [BAD]})
    assert ran.order == ["a", "b", "c"]
    assert (ran.state.tasks[0].recovered_by, ran.state.status) == ("b", "completed")
    worse = rehearse(spec, {"a": [BAD], "b": [BAD], "c": [BAD]})
    assert worse.order == ["a", "b", "c", "d"]
    assert (worse.state.tasks[0].recovered_by, worse.state.status) == ("d", "completed")


def routed() -> Plan:
    """Transient failures are retried, logic goes to another way, policy to a person."""
    return plan(
        {
            "id": "act",
            "run": "x",
            "retry": {"attempts": 2, "delay": "1s", "on": ["transient"]},
            "next": [{"on": "logic", "to": "other"}, {"on": "policy", "to": "ask"}],
        },
        {"id": "other", "run": "x"},
        {"id": "ask", "gate": "approval", "ask": "go on?"},
    )


def test_failures_are_routed_by_class_to_a_retry_an_alternate_or_a_person() -> None:
    assert rehearse(routed(), {"act": [FLAKY, Outcome(exit_code=0)]}).order == ["act", "act"]
    logic = rehearse(routed(), {"act": [BAD]})
    assert (logic.order, logic.statuses()["ask"]) == (["act", "other"], "omitted")
    policy = rehearse(routed(), {"act": [POLICY]})
    assert policy.statuses() == {"act": "failed", "other": "omitted", "ask": "blocked"}
    assert policy.state.status == "blocked"


def test_a_failure_mode_leads_to_its_recovery() -> None:
    mode = {"name": "full", "detect": "exit_code == 28", "recover": "clean"}
    spec = plan({"id": "write", "run": "x", "failure_modes": [mode]}, {"id": "clean", "run": "x"})
    ran = rehearse(spec, {"write": [Outcome("logic", "exit code 28", exit_code=28)]})
    assert (ran.state.tasks[0].failure, ran.order) == ("full", ["write", "clean"])
    other = rehearse(spec, {"write": [BAD]})
    assert other.order == ["write"]
