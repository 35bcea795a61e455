"""``retry`` and ``rerun``: which tasks begin anew, which keep their results, and what opens again around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from planrunner import syntax
from planrunner.engine.drive import Driver
from planrunner.engine.imagined import ImaginedEffects, Script
from planrunner.machine.events import Outcome, RunReopened, RunResumed, RunStarted
from planrunner.machine.evolve import fold
from planrunner.machine.rerun import Anew, Unfit, reset_event, retried, run_again
from planrunner.machine.state import State
from planrunner.plan.canonical import canonical
from planrunner.plan.lower import lower
from planrunner.plan.model import Plan
from planrunner.source import Source
from planrunner.testing.rehearse import TRAITS, Rehearsal, rehearse
from planrunner.testing.simulate import PLACE, RUN_ID, START, Crash, Disk, Nobody

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)


def plan(*tasks: dict[str, Any], **keys: Any) -> Plan:
    parsed = syntax.parse(Source(json.dumps({"plan": "p", "tasks": list(tasks), **keys}), "p.json", "json"))
    assert parsed.tree is not None
    return lower(canonical(parsed.tree)).plan


def given(**values: Any) -> Outcome:
    return Outcome(outputs=values, exit_code=0, duration=1.0)


def again(ran: Rehearsal, choose: Any, outcomes: Mapping[str, Outcome] = {}) -> tuple[State, list[str]]:
    """Begin anew what ``choose`` picks from the state and go on; the state and the tasks that acted."""
    disk = Disk()
    disk.entries = list(ran.entries)
    state = fold(ran.state.plan, RUN_ID, disk.entries)
    anew: Anew = choose(state)
    acted: list[str] = []

    def outcome(call: Any) -> Outcome:
        acted.append(call.task.id)
        return outcomes.get(call.task.id, Outcome(exit_code=0, duration=1.0))

    effects = ImaginedEffects(Script(outcome, lambda names: {}), disk.entries[-1].at + 60)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(disk.entries))
    ended = [] if state.ended_at is None else [RunReopened("retry", "ana")]
    driver.record(*ended, RunResumed(2), reset_event(state, anew, "retry", "ana"))
    driver.run()
    assert fold(state.plan, RUN_ID, disk.entries).counts == state.counts
    return state, acted


def names(*wanted: str) -> Any:
    return lambda state: [state.index[name] for name in wanted]


CHAIN = (
    {"id": "a", "run": "x", "outputs": {"v": "int"}},
    {"id": "b", "run": "use {{ tasks.a.outputs.v }}", "needs": ["a"]},
    {"id": "c", "run": "x", "needs": ["b"]},
)


def test_retry_begins_what_failed_and_what_came_to_nothing_because_of_it() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)], "b": [BAD]})
    state, acted = again(ran, lambda state: retried(state, []))
    assert acted == ["b", "c"]
    assert state.status == "completed"


def test_rerun_keeps_results_whose_inputs_are_the_same() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)]})
    pick = lambda state: run_again(state, names("a")(state), all_after=False, only_failed=False)  # noqa: E731
    state, acted = again(ran, pick, {"a": given(v=1)})
    assert acted == ["a"]
    assert [found.reason for found in state.tasks] == ["", "reused", "reused"]
    state, acted = again(ran, pick, {"a": given(v=2)})
    assert acted == ["a", "b"]
    assert state.status == "completed"


def test_rerun_downstream_begins_everything_after_anew() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)]})
    pick = lambda state: run_again(state, names("b")(state), all_after=True, only_failed=False)  # noqa: E731
    assert again(ran, pick)[1] == ["b", "c"]


def test_only_failed_leaves_what_went_well() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)], "c": [BAD]})
    pick = lambda state: run_again(state, names("a", "c")(state), all_after=True, only_failed=True)  # noqa: E731
    assert again(ran, pick)[1] == ["c"]
    with pytest.raises(Unfit, match="went well"):
        run_again(rehearse(plan(*CHAIN), {"a": [given(v=1)]}).state, [0], all_after=False, only_failed=True)


def test_a_failed_item_is_begun_anew_alone_and_its_fan_out_goes_on() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": [1, 2, 3], "max_parallel": 1}
    ran = rehearse(plan(fan, {"id": "use", "run": "x", "needs": ["fan"]}), {"fan[1]": [BAD]})
    assert ran.statuses()["fan[2]"] == "cancelled"
    state, acted = again(ran, lambda state: retried(state, []))
    assert acted == ["fan[1]", "fan[2]", "use"]
    assert state.status == "completed"
    assert state.tasks[0].attempts == 1


def test_a_failed_step_deep_inside_is_begun_anew_alone() -> None:
    inner = [{"id": "one", "run": "x"}, {"id": "two", "run": "x", "needs": ["one"]}]
    deep = {"id": "deep", "foreach": [1, 2], "subplan": [{"id": "part", "subplan": inner}], "max_parallel": 2}
    ran = rehearse(plan(deep, {"id": "use", "run": "x", "needs": ["deep"]}), {"deep[1]/part/two": [BAD]})
    assert ran.state.status == "failed"
    state, acted = again(ran, lambda state: retried(state, []))
    assert acted == ["deep[1]/part/two", "use"]
    assert state.status == "completed"


def test_a_loop_that_was_exhausted_begins_as_a_whole() -> None:
    loop = {"id": "l", "loop": {"max": 1, "until": "tasks.t.outputs.v == 1", "tasks": [{"id": "t", "run": "x"}]}}
    ran = rehearse(plan(loop), {"l#1/t": [given(v=0)]})
    assert ran.state.tasks[0].failure == "exhausted"
    state, acted = again(ran, lambda state: retried(state, []), {"l@2#1/t": given(v=1)})
    assert acted == ["l@2#1/t"]
    assert state.status == "completed"


def test_what_belongs_to_a_round_that_is_over_cannot_begin_anew() -> None:
    loop = {"id": "l", "loop": {"max": 2, "until": "tasks.t.ok", "tasks": [{"id": "t", "run": "x"}]}}
    ran = rehearse(plan(loop), {"l#1/t": [BAD]})
    with pytest.raises(Unfit, match="a round or an attempt that is over"):
        retried(ran.state, names("l#1/t")(ran.state))


def test_nothing_failed_and_nothing_to_retry() -> None:
    with pytest.raises(Unfit, match="no task of the run failed"):
        retried(rehearse(plan(*CHAIN), {"a": [given(v=1)]}).state, [])


def test_a_task_that_somebody_names_begins_though_its_level_fails() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": [1, 2, 3], "max_parallel": 1}
    ran = rehearse(plan(fan), {"fan[1]": [BAD]})
    pick = lambda state: run_again(state, names("fan[0]")(state), all_after=False, only_failed=False)  # noqa: E731
    state, acted = again(ran, pick)
    assert acted == ["fan[0]"]
    assert state.tasks[state.index["fan[0]"]].status == "completed"
    assert state.status == "failed"


def test_what_ran_out_of_time_while_nobody_ran_it_starts_nothing() -> None:
    hold = {"id": "hold", "timeout": "10s", "subplan": [{"id": "s", "run": "x", "effect": "idempotent"}]}
    held = plan(hold)
    disk = Disk({1: True})
    effects = ImaginedEffects(Script(lambda call: Outcome(exit_code=0, duration=5.0), lambda names: {}), START)
    state = fold(held, RUN_ID, [])
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), 0)
    driver.record(RunStarted("sha256:x", {}, 7, traits=TRAITS))
    with pytest.raises(Crash):
        driver.run()
    acted: list[str] = []
    later = ImaginedEffects(Script(lambda call: acted.append(call.task.id) or Outcome(), lambda names: {}), START + 60)  # type: ignore[func-returns-value]
    state = fold(held, RUN_ID, disk.entries)
    again_ = Driver(state, disk.append, later, PLACE, Nobody(), len(disk.entries))
    again_.record(RunResumed(2))
    again_.run()
    assert acted == []
    assert [found.status for found in state.tasks] == ["failed", "cancelled"]
