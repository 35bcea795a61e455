"""Circuit breakers of plans, and those of loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import workbench
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.admission import watches
from planrunner.machine.events import AttemptStarted, Outcome, TaskDelayed
from planrunner.plan.model import Plan

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
GOOD = Outcome(exit_code=0, duration=1.0)


plan = partial(workbench.plan, on_failure="continue")


def calls(count: int, **keys: Any) -> Plan:
    tasks = [{"id": f"t{n}", "run": "call"} for n in range(count)]
    breaker = {"uses": "shell", "failures": 2, "cooldown": "60s"}
    return plan(*tasks, max_parallel=1, breakers=[breaker], **keys)


def starts(ran: Rehearsal) -> list[tuple[str, float]]:
    first = ran.entries[0].at
    return [(e.event.task, round(e.at - first)) for e in ran.entries if isinstance(e.event, AttemptStarted)]


@rows(
    ("pattern", "name", "expected"),
    [
        ("http.*", "http.get", True),
        ("http.*", "https.get", False),
        ("*", "shell", True),
        ("shell", "shell", True),
        ("shell", "shells", False),
        ("a*b*c", "a.b.c", True),
        ("a*b*c", "a.c", False),
        ("ab*ba", "aba", False),
    ],
)
def test_a_pattern_fits_names(pattern: str, name: str, expected: bool) -> None:
    assert watches(pattern, name) is expected


def test_after_failures_in_a_row_nothing_starts_until_the_cooldown_is_over() -> None:
    ran = rehearse(calls(4), {"t0": [BAD], "t1": [BAD]})
    assert starts(ran) == [("t0", 0), ("t1", 1), ("t2", 62), ("t3", 63)]
    delayed = [e.event for e in ran.entries if isinstance(e.event, TaskDelayed)]
    assert delayed[0].detail == "`shell` failed 2 times in a row: nothing of it starts for 60 s"


def test_one_attempt_is_let_through_first_and_its_failure_opens_the_breaker_again() -> None:
    ran = rehearse(calls(4, seed=1)._replace(max_parallel=4), {"t0": [BAD], "t1": [BAD], "t2": [BAD]})
    assert starts(ran)[:4] == [("t0", 0), ("t1", 0), ("t2", 0), ("t3", 0)], "they began before anything had failed"
    ran = rehearse(calls(4), {"t0": [BAD], "t1": [BAD], "t2": [BAD]})
    assert starts(ran) == [("t0", 0), ("t1", 1), ("t2", 62), ("t3", 123)]


def test_a_success_between_failures_keeps_the_breaker_closed() -> None:
    ran = rehearse(calls(4), {"t0": [BAD], "t2": [BAD]})
    assert [at for _, at in starts(ran)] == [0, 1, 2, 3]


def test_a_breaker_watches_only_what_fits() -> None:
    tasks = [{"id": f"t{n}", "run": "call"} for n in range(3)]
    spec = plan(*tasks, max_parallel=1, breakers=[{"uses": "http.*", "failures": 1, "cooldown": "60s"}])
    assert [at for _, at in starts(rehearse(spec, {"t0": [BAD], "t1": [BAD]}))] == [0, 1, 2]


# Loops


def loop(until: str, tasks: Sequence[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    return {"id": "fix", "loop": {"max": 9, "until": until, "breaker": 2, "tasks": list(tasks), **keys}}


def test_a_loop_whose_rounds_fail_alike_ends() -> None:
    spec = plan(loop("tasks.test.ok", [{"id": "test", "run": "pytest"}]))
    ran = rehearse(spec, {f"fix#{n}/test": [BAD] for n in range(1, 10)})
    assert (ran.state.tasks[0].status, ran.state.tasks[0].failure) == ("failed", "breaker")
    assert ran.order == ["fix", "fix#1/test", "fix#2/test"]
    other = Outcome("logic", "exit code 2", exit_code=2, duration=1.0)
    differs = rehearse(spec, {f"fix#{n}/test": [BAD if n % 2 else other] for n in range(1, 10)})
    assert differs.state.tasks[0].failure == "exhausted"


def test_a_loop_that_changes_nothing_it_carries_ends() -> None:
    draft = {"id": "draft", "run": "write", "outputs": {"text": "string"}}
    carry = {"text": {"first": "start", "next": "{{ tasks.draft.outputs.text }}"}}
    spec = plan(loop("tasks.draft.outputs.text == 'good'", [draft], carry=carry))

    def said(*texts: str) -> dict[str, list[Outcome]]:
        return {
            f"fix#{n}/draft": [Outcome(outputs={"text": text}, exit_code=0)] for n, text in enumerate(texts, start=1)
        }

    stuck = rehearse(spec, said("a", "a", "a", "a"))
    assert stuck.state.tasks[0].failure == "breaker"
    assert stuck.order == ["fix", "fix#1/draft", "fix#2/draft", "fix#3/draft"]
    moving = rehearse(spec, said("a", "a", "b", "good"))
    assert moving.state.tasks[0].status == "completed"
