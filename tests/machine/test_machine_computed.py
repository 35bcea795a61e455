"""Settings of a task that its plan computes: from parameters, from results before it, for each item by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import workbench
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome, SettingsComputed
from planrunner.machine.explain import why
from planrunner.plan.compiled import dump
from planrunner.plan.compiled import load as load_compiled

PARAMS = {
    "limit": {"type": "duration", "default": "5m"},
    "text": {"type": "string", "default": "90s"},
    "n": {"type": "int", "default": 2},
    "share": {"type": "percent", "default": "50%"},
    "names": {"type": "list", "default": ["a"]},
}
BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)


loaded = partial(workbench.loaded, params=PARAMS)


def run(
    *tasks: dict[str, Any], outcomes: dict[str, list[Outcome]] | None = None, params: Any = None, **keys: Any
) -> Rehearsal:
    found = loaded(*tasks, **keys)
    assert found.plan is not None, [finding.message for finding in found.findings]
    assert load_compiled(dump(found.plan)) == found.plan
    given = {"limit": 300.0, "text": "90s", "n": 2, "share": 0.5, "names": ["a"], **(params or {})}
    return rehearse(found.plan, outcomes or {}, params=given)


def values(ran: Rehearsal) -> dict[str, Any]:
    found = [each.event for each in ran.entries if isinstance(each.event, SettingsComputed)]
    return {event.task: event.values for event in found}


TASK = {"id": "a", "run": "work"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("{{ params.limit }}", 300.0), ("{{ params.text }}", 90.0), ("{{ params.n * 60 }}", 120.0), ("{{ params.limit * 2 }}", 600.0)],
)  # fmt: skip
def test_a_timeout_is_a_duration_a_text_or_seconds(text: str, seconds: float) -> None:
    ran = run({**TASK, "timeout": text})
    assert values(ran) == {"a": {"timeout": seconds}}
    assert (ran.state.specs[0].timeout, ran.state.status) == (seconds, "completed")


def test_a_default_is_computed_for_each_task_that_says_nothing_else() -> None:
    tasks = (TASK, {**TASK, "id": "b", "timeout": "1m"}, {"id": "g", "subplan": [{"id": "in", "run": "x"}]})
    ran = run(*tasks, defaults={"timeout": "{{ params.limit }}", "retry": "{{ params.n }}"})
    assert values(ran) == {
        "a": {"timeout": 300.0, "retry.attempts": 2},
        "b": {"retry.attempts": 2},
        "g/in": {"timeout": 300.0, "retry.attempts": 2},
    }


@pytest.mark.parametrize("retry", ["{{ params.n }}", {"attempts": "{{ params.n }}", "delay": "1s"}])
def test_so_many_attempts_are_made_as_are_computed(retry: Any) -> None:
    ran = run({**TASK, "timeout": "1m", "retry": retry}, outcomes={"a": [BAD]}, params={"n": 3})
    assert (ran.state.tasks[0].attempts, ran.state.tasks[0].status) == (3, "failed")
    assert len(values(ran)) == 1


def test_settings_are_computed_from_the_results_before() -> None:
    first = {"id": "first", "run": "work", "timeout": "1m", "outputs": {"n": "int"}}
    after = {
        **TASK,
        "needs": ["first"],
        "timeout": "{{ tasks.first.outputs.n * 10 }}",
        "delay": "{{ tasks.first.outputs.n }}",
    }
    ran = run(first, after, outcomes={"first": [Outcome(exit_code=0, outputs={"n": 7})]})
    assert values(ran) == {"a": {"timeout": 70.0, "delay": 7.0}}


def test_the_limits_of_a_fan_out_are_computed_once_and_those_of_its_items_for_each() -> None:
    fan = {
        "id": "fan", "run": "x", "foreach": [1, 2, 3, 4],
        "max_parallel": "{{ params.n }}", "tolerate": "{{ params.share }}", "timeout": "{{ item * 60 }}",
    }  # fmt: skip
    ran = run(fan, outcomes={"fan[0]": [BAD], "fan[1]": [BAD]})
    assert values(ran)["fan"] == {"max_parallel": 2, "tolerate": "50%"}
    assert [values(ran)[f"fan[{at}]"] for at in range(4)] == [{"timeout": 60.0 * n} for n in (1, 2, 3, 4)]
    assert ran.order[:3] == ["fan", "fan[0]", "fan[1]"]
    assert ran.state.status == "completed"
    worse = run(fan, outcomes={"fan[0]": [BAD], "fan[1]": [BAD]}, params={"share": 0.25})
    assert worse.state.status == "failed"


UNFIT = {
    "a text that is not a duration": ({"timeout": "{{ params.text }}"}, {"text": "soon"}, "a duration such as"),
    "no time at all": ({"timeout": "{{ params.n }}"}, {"n": 0}, "a duration such as"),
    "no attempt": ({"retry": "{{ params.n }}"}, {"n": 0}, "a whole number from 1 to 1000, this is 0"),
    "too many attempts": ({"retry": "{{ params.n }}"}, {"n": 1001}, "a whole number from 1 to 1000, this is 1001"),
    "half a copy": ({"foreach": [1], "max_parallel": "{{ params.n / 4 }}"}, {}, "a whole number from 1, this is 0.5"),
    "a negative number": ({"foreach": [1], "tolerate": "{{ 0 - params.n }}"}, {}, "this is -2"),
    "more than all": ({"foreach": [1], "tolerate": "{{ params.share }}"}, {"share": 1.5}, "this is 150%"),
    "a list": ({"timeout": "{{ params.names[0] }}"}, {"names": [[]]}, "this is []"),
    "no value": ({"timeout": "{{ params.names[3] }}"}, {}, "has no value"),
}


@rows("name", UNFIT)
def test_a_value_of_another_kind_or_range_fails_the_task_before_it_starts(name: str) -> None:
    keys, params, said = UNFIT[name]
    ran = run({**TASK, "timeout": "1m", **keys}, params=params)
    found = ran.state.tasks[0]
    assert (found.status, found.reason, found.attempts) == ("failed", "settings", 0)
    assert said in found.detail
    assert found.detail in "\n".join(why(ran.state, "a"))


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"timeout": "{{ params.lmit }}"}, "PLAN201"),
        ({"timeout": "{{ params.names }}"}, "PLAN205"),
        ({"retry": "{{ params.limit }}"}, "PLAN205"),
        ({"timeout": "in {{ params.n }} minutes"}, "PLAN006"),
        ({"foreach": [1], "max_parallel": "{{ params.text }}"}, "PLAN205"),
    ],
)
def test_a_setting_that_cannot_be_computed_is_a_finding(keys: dict[str, Any], code: str) -> None:
    assert code in [each.code for each in loaded({**TASK, **keys}).findings]


def test_a_computed_timeout_is_one() -> None:
    assert "PLAN501" not in [each.code for each in loaded({**TASK, "timeout": "{{ params.limit }}"}).findings]
