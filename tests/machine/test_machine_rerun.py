"""``retry`` and ``rerun``: which tasks begin anew, which keep their results, and what opens again around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import PLACE, RUN_ID, START, Crash, Disk, Nobody

from planrunner.app.proof.promises import check_items
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.compensation import outstanding, started
from planrunner.machine.events import (
    Outcome,
    RollbackStarted,
    RunReopened,
    RunResumed,
    RunStarted,
    TasksReset,
    UndoSettled,
)
from planrunner.machine.evolve import fold
from planrunner.machine.rework import Reset, Unfit, reset_event, retried, run_again
from planrunner.machine.state import State
from planrunner.plan.canonical import canonical
from planrunner.plan.lower.plan import lower
from planrunner.plan.model import Plan
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.views.status import elapsed

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)


def plan(*tasks: dict[str, Any], **keys: Any) -> Plan:
    parsed = parse(Source(json.dumps({"plan": "p", "tasks": list(tasks), **keys}), "p.json", "json"))
    assert parsed.tree is not None
    return lower(canonical(parsed.tree)).plan


def given(**values: Any) -> Outcome:
    return Outcome(outputs=values, exit_code=0, duration=1.0)


def again(
    ran: Rehearsal, choose: Any, outcomes: Mapping[str, Outcome] = {}, disk: Disk | None = None
) -> tuple[State, list[str]]:
    """Begin anew what ``choose`` picks from the state and go on; the state and the tasks that acted."""
    disk = disk or Disk()
    disk.entries = list(ran.entries)
    state = fold(ran.state.plan, RUN_ID, disk.entries)
    anew: Reset = choose(state)
    acted: list[str] = []

    def outcome(call: Any) -> Outcome:
        acted.append(call.name)
        return outcomes.get(call.name, Outcome(exit_code=0, duration=1.0))

    effects = SimulatedEffects(Script(outcome, lambda names: {}), disk.entries[-1].at + 60)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(disk.entries))
    ended = [] if state.ended_at is None else [RunReopened("retry", "ana")]
    driver.record(*ended, RunResumed(2), reset_event(state, anew, "retry", "ana"))
    driver.run()
    assert fold(state.plan, RUN_ID, disk.entries).counts == state.counts
    assert replay(state.plan, RUN_ID, disk.entries).difference is None
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
    pick = lambda state: run_again(state, names("a")(state), by_call=True)  # noqa: E731
    state, acted = again(ran, pick, {"a": given(v=1)})
    assert acted == ["a"]
    assert [found.reason for found in state.tasks] == ["", "reused", "reused"]
    state, acted = again(ran, pick, {"a": given(v=2)})
    assert acted == ["a", "b"]
    assert state.status == "completed"


@pytest.mark.parametrize("own", [{"uses": "noop"}, {"foreach": [1, 2], "uses": "noop"}, {"run": "x"}])
def test_a_task_that_is_never_fresh_runs_though_its_call_is_the_same(own: dict[str, Any]) -> None:
    tasks = ({"id": "a", "run": "x"}, {"id": "b", "needs": ["a"], **own})
    pick = lambda state: run_again(state, names("a")(state), by_call=True)  # noqa: E731
    assert again(rehearse(plan(*tasks)), pick)[1] == ["a"]
    assert len(again(rehearse(plan(tasks[0], {**tasks[1], "fresh": "never"})), pick)[1]) > 1


def test_rerun_downstream_begins_everything_after_anew() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)]})
    pick = lambda state: run_again(state, names("b")(state), all_after=True, only_failed=False)  # noqa: E731
    assert again(ran, pick)[1] == ["b", "c"]


def test_only_failed_leaves_what_went_well() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)], "c": [BAD]})
    pick = lambda state: run_again(state, names("a", "c")(state), all_after=True, only_failed=True)  # noqa: E731
    assert again(ran, pick)[1] == ["c"]
    with pytest.raises(Unfit, match="went well"):
        run_again(rehearse(plan(*CHAIN), {"a": [given(v=1)]}).state, [0], only_failed=True)


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
    pick = lambda state: run_again(state, names("fan[0]")(state), by_call=True)  # noqa: E731
    state, acted = again(ran, pick)
    assert acted == ["fan[0]"]
    assert state.tasks[state.index["fan[0]"]].status == "completed"
    assert state.status == "failed"


def test_what_ran_out_of_time_while_nobody_ran_it_starts_nothing() -> None:
    hold = {"id": "hold", "timeout": "10s", "subplan": [{"id": "s", "run": "x", "effect": "idempotent"}]}
    held = plan(hold)
    disk = Disk({1: True})
    effects = SimulatedEffects(Script(lambda call: Outcome(exit_code=0, duration=5.0), lambda names: {}), START)
    state = fold(held, RUN_ID, [])
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), 0)
    driver.record(RunStarted("sha256:x", {}, 7, traits=TRAITS))
    with pytest.raises(Crash):
        driver.run()
    acted: list[str] = []
    later = SimulatedEffects(Script(lambda call: acted.append(call.name) or Outcome(), lambda names: {}), START + 60)  # type: ignore[func-returns-value]
    state = fold(held, RUN_ID, disk.entries)
    again_ = Driver(state, disk.append, later, PLACE, Nobody(), len(disk.entries))
    again_.record(RunResumed(2))
    again_.run()
    assert acted == []
    assert [found.status for found in state.tasks] == ["failed", "cancelled"]


def picks(*wanted: str, by_call: bool = True, **how: bool) -> Any:
    """Chooses what ``rerun`` of these tasks begins anew, by default with ``--keep-unchanged``."""
    return lambda state: run_again(state, names(*wanted)(state), by_call=by_call, **how)


def chosen(state: State, anew: Reset) -> tuple[list[str], list[str]]:
    again_, perhaps = ([state.specs[number].id for number in numbers] for numbers in (anew.again, anew.perhaps))
    return again_, perhaps


def reasons(state: State) -> dict[str, str]:
    return {task.id: found.reason or found.status for task, found in zip(state.specs, state.tasks)}


LAST = [{"id": "last", "run": "x"}]


def linked(found: Plan, holder: str) -> Plan:
    """The plan with the steps of one task as a plan of its own, as a file gives them, whose last step is its
    ``finally``."""
    tasks = []
    for task in found.tasks:
        if task.id == holder:
            steps = (*task.subplan[:-1], task.subplan[-1]._replace(finally_=True))
            task = task._replace(subplan=(), sub=Plan("sub", tasks=steps))
        tasks.append(task)
    return found._replace(tasks=tuple(tasks))


# What keeps its result by default


READS = ["read", False, False]
KINDS = {**TRAITS, "look": READS, "ask": [*READS, ["cost"]]}


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        pytest.param({"run": "cat db.txt"}, False, id="a script may read what no call shows"),
        pytest.param({"uses": "look"}, False, id="so may a capability that reads"),
        pytest.param({"uses": "noop"}, True, id="a pure capability depends on its call alone"),
        pytest.param({"uses": "ask"}, True, id="an answer that was paid for is not bought twice"),
        pytest.param({"run": "cat db.txt", "effect": "pure"}, True, id="a script that declares to be pure"),
        pytest.param({"run": "cat db.txt", "effect": "read"}, True, id="a script that declares to read only"),
        pytest.param({"run": "cat db.txt", "effect": "idempotent"}, False, id="a script that may be repeated"),
    ],
)
def test_after_a_task_that_runs_again_only_what_its_call_tells_wholly_keeps_its_result(
    keys: dict[str, Any], kept: bool
) -> None:
    ran = rehearse(plan({"id": "a", "run": "x"}, {"id": "b", "needs": ["a"], **keys}), started={"traits": KINDS})
    state, acted = again(ran, picks("a", by_call=False))
    assert acted == (["a"] if kept else ["a", "b"])
    assert reasons(state)["b"] == ("reused" if kept else "completed")
    assert again(ran, picks("a", by_call=True))[1] == ["a"]
    assert again(ran, picks("a", by_call=False, all_after=True))[1] == ["a", "b"]


def test_inside_a_container_each_task_keeps_its_result_by_the_same_rule() -> None:
    steps = [{"id": "one", "run": "x"}, {"id": "two", "uses": "noop", "with": {"value": 1}}]
    fan = {"id": "fan", "needs": ["a"], "foreach": [1, 2], "subplan": steps}
    ran = rehearse(plan({"id": "a", "run": "x"}, fan, {"id": "only", "needs": ["a"], "subplan": steps[:1]}))
    pick = picks("a", by_call=False)
    assert chosen(ran.state, pick(ran.state)) == (["a", "only"], ["fan"])
    assert sorted(again(ran, pick)[1]) == ["a", "fan@2[0]/one", "fan@2[1]/one", "only@2/one"]


def test_a_reset_by_call_keeps_whatever_would_be_called_as_before() -> None:
    ran = rehearse(plan(*CHAIN), {"a": [given(v=1)]})
    pick = lambda state: Reset((0,), (1, 2), TasksReset((), "rerun").by_call)  # noqa: E731
    assert again(ran, pick, {"a": given(v=1)})[1] == ["a"]


# What stands under `finally`


@pytest.mark.parametrize("only_failed", [False, True])
def test_what_stands_under_finally_runs_again_after_anything_that_begins_anew(only_failed: bool) -> None:
    ran = rehearse(plan(*CHAIN, **{"finally": LAST}), {"a": [given(v=1)], "b": [BAD]})
    state, acted = again(ran, picks("b", only_failed=only_failed), {"b": given()})
    assert acted == ["b", "c", "last"]
    assert state.status == "completed"
    assert again(ran, lambda state: retried(state, []))[1] == ["b", "c", "last"]


def test_what_stands_under_finally_never_keeps_its_result() -> None:
    ran = rehearse(plan(*CHAIN, **{"finally": LAST}), {"a": [given(v=1)]})
    state, acted = again(ran, picks("a"), {"a": given(v=1)})
    assert acted == ["a", "last"]
    assert reasons(state)["b"] == "reused"


def test_finally_of_every_level_around_a_task_that_begins_anew_runs_again() -> None:
    steps = [{"id": "one", "run": "x"}, {"id": "two", "run": "x"}, {"id": "tidy", "run": "x"}]
    ran = rehearse(linked(plan({"id": "sub", "subplan": steps}, **{"finally": LAST}), "sub"), {})
    assert again(ran, picks("sub/one"))[1] == ["sub/one", "sub/tidy", "last"]
    ran = rehearse(ran.state.plan, {"sub/two": [BAD]})
    assert again(ran, lambda state: retried(state, []))[1] == ["sub/two", "sub/tidy", "last"]


def test_naming_what_stands_under_finally_begins_nothing_else_of_its_level() -> None:
    finals = [*LAST, {"id": "tell", "run": "x"}]
    ran = rehearse(plan(*CHAIN, **{"finally": finals}), {"a": [given(v=1)]})
    assert again(ran, picks("last"))[1] == ["last"]


def test_finally_inside_a_holder_that_keeps_everything_keeps_its_result_too() -> None:
    steps = [{"id": "one", "run": "x"}, {"id": "tidy", "run": "x"}]
    found = plan(*CHAIN, {"id": "sub", "needs": ["b"], "subplan": steps}, **{"finally": LAST})
    ran = rehearse(linked(found, "sub"), {"a": [given(v=1)]})
    state, acted = again(ran, picks("b"))
    assert acted == ["b", "last"]
    assert reasons(state)["sub@2/tidy"] == "reused"


# Tasks that hold others


FED = (
    {"id": "a", "run": "x", "outputs": {"v": "int", "list": "list"}},
    {
        "id": "sub",
        "needs": ["a"],
        "subplan": [
            {"id": "one", "run": "x"},
            {"id": "two", "run": "x {{ tasks.a.outputs.v }}"},
            {"id": "three", "run": "x", "needs": ["one"], "outputs": {"n": "int"}},
        ],
        "outputs": {"n": "{{ tasks.three.outputs.n }}"},
    },
    {"id": "use", "run": "x {{ tasks.sub.outputs.n }}", "needs": ["sub"]},
)


def test_a_subplan_downstream_runs_only_the_steps_that_would_be_called_otherwise() -> None:
    ran = rehearse(plan(*FED), {"a": [given(v=1, list=[])], "sub/three": [given(n=5)]})
    state, acted = again(ran, picks("a"), {"a": given(v=2, list=[])})
    assert acted == ["a", "sub@2/two"]
    assert reasons(state)["sub"] == "completed"
    assert state.tasks[state.index["sub"]].outputs == {"n": 5}
    assert reasons(state)["use"] == "reused"


def test_a_subplan_in_which_nothing_has_changed_keeps_everything_and_says_so() -> None:
    ran = rehearse(plan(*FED), {"a": [given(v=1, list=[])], "sub/three": [given(n=5)]})
    state, acted = again(ran, picks("a"), {"a": given(v=1, list=[])})
    assert acted == ["a"]
    assert state.tasks[state.index["sub"]].detail == "unchanged; results of all its tasks reused"
    assert state.tasks[state.index["sub@2/one"]].detail == "unchanged; result of `sub/one` reused"
    assert state.status == "completed"


def test_items_with_equal_values_keep_their_results_wherever_they_stand() -> None:
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item }}"}
    fan["outputs"] = {"n": "int"}
    before = {f"fan[{at}]": [given(n=at)] for at in range(3)}
    ran = rehearse(plan(FED[0], fan), {"a": [given(v=1, list=["p", "q", "r"])], **before})
    state, acted = again(ran, picks("a"), {"a": given(v=1, list=["r", "new", "p", "q"]), "fan@2[1]": given(n=9)})
    assert acted == ["a", "fan@2[1]"]
    assert state.tasks[state.index["fan"]].outputs == {"n": [2, 9, 0, 1]}


def test_an_item_whose_value_differs_keeps_its_result_if_its_call_does_not() -> None:
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item.name }}"}
    ran = rehearse(plan(FED[0], fan), {"a": [given(v=1, list=[{"name": "p", "note": 1}, {"name": "q", "note": 1}])]})
    changed = given(v=1, list=[{"name": "p", "note": 2}, {"name": "r", "note": 1}])
    assert again(ran, picks("a"), {"a": changed})[1] == ["a", "fan@2[1]"]


def test_an_item_that_reads_its_place_runs_again_when_that_has_changed() -> None:
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item }} {{ index }}"}
    ran = rehearse(plan(FED[0], fan), {"a": [given(v=1, list=["p", "q"])]})
    assert again(ran, picks("a"), {"a": given(v=1, list=["q", "p"])})[1] == ["a", "fan@2[0]", "fan@2[1]"]


LOOP = {
    "id": "l",
    "needs": ["a"],
    "loop": {
        "max": 4,
        "until": "tasks.t.outputs.v >= 3",
        "tasks": [{"id": "t", "run": "x {{ loop.round }} {{ tasks.a.outputs.list }}", "outputs": {"v": "int"}}],
    },
}


def test_a_loop_keeps_its_rounds_when_they_would_be_called_as_before() -> None:
    rounds = {f"l#{at}/t": [given(v=at)] for at in (1, 2, 3)}
    ran = rehearse(plan(FED[0], LOOP), {"a": [given(v=1, list=[])], **rounds})
    state, acted = again(ran, picks("a"), {"a": given(v=1, list=[])})
    assert acted == ["a"]
    assert reasons(state)["l"] == "reused"
    assert state.tasks[state.index["l"]].outputs == {"rounds": 3}


def test_the_first_difference_of_a_loop_makes_its_later_rounds_run() -> None:
    loop = {
        "id": "l",
        "needs": ["a"],
        "loop": {
            "max": 3,
            "tasks": [
                {"id": "s", "run": "x {{ tasks.a.outputs.v if loop.round == 2 else 0 }}"},
                {"id": "t", "run": "x", "needs": ["s"]},
            ],
        },
    }
    ran = rehearse(plan(FED[0], loop), {"a": [given(v=1, list=[])]})
    acted = again(ran, picks("a"), {"a": given(v=2, list=[])})[1]
    assert acted == ["a", "l@2#2/s", "l@2#3/s", "l@2#3/t"]


def test_what_is_nested_in_a_holder_is_compared_too() -> None:
    steps = [{"id": "one", "run": "x {{ item }}"}, {"id": "two", "run": "x {{ tasks.a.outputs.v }}"}]
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "subplan": steps}
    found = plan(FED[0], {"id": "l", "needs": ["a"], "loop": {"max": 2, "tasks": [{**fan, "needs": []}]}})
    ran = rehearse(found, {"a": [given(v=1, list=["p", "q"])]})
    acted = again(ran, picks("a"), {"a": given(v=1, list=["p", "new", "q"])})[1]
    assert acted[:3] == ["a", "l@2#1/fan[1]/one", "l@2#1/fan[1]/two"]
    assert all(name.startswith("l@2#2/") for name in acted[3:])
    assert len(acted) == 3 + 6


def test_a_named_task_inside_a_holder_that_is_only_compared_runs_again_there() -> None:
    ran = rehearse(plan(*FED), {"a": [given(v=1, list=[])], "sub/three": [given(n=5)]})
    result = {"a": given(v=1, list=[]), "sub@2/three": given(n=5)}
    assert again(ran, picks("a", "sub/one"), result)[1] == ["a", "sub@2/one"]


def test_downstream_begins_holders_as_a_whole() -> None:
    ran = rehearse(plan(*FED), {"a": [given(v=1, list=[])], "sub/three": [given(n=5)]})
    result = {"a": given(v=1, list=[]), "sub@2/three": given(n=5)}
    _, acted = again(ran, picks("a", all_after=True), result)
    assert acted == ["a", "sub@2/one", "sub@2/two", "sub@2/three", "use"]


def test_a_failed_holder_downstream_runs_only_what_did_not_go_well() -> None:
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item }}"}
    ran = rehearse(plan(FED[0], fan), {"a": [given(v=1, list=["p", "q"])], "fan[1]": [BAD]})
    state, acted = again(ran, picks("a"), {"a": given(v=1, list=["p", "q"])})
    assert acted == ["a", "fan@2[1]"]
    assert state.status == "completed"


def test_a_second_rerun_compares_with_what_was_kept_by_the_first() -> None:
    ran = rehearse(plan(*FED), {"a": [given(v=1, list=[])], "sub/three": [given(n=5)]})
    disk = Disk()
    state, _ = again(ran, picks("a"), {"a": given(v=1, list=[])}, disk)
    second = Rehearsal(state, disk.entries, [])
    state, acted = again(second, picks("a"), {"a": given(v=7, list=[])})
    assert acted == ["a", "sub@3/two"]
    assert state.tasks[state.index["sub@3/one"]].detail == "unchanged; result of `sub@2/one` reused"


def test_an_attempt_that_follows_a_failed_one_never_keeps_the_result_of_before() -> None:
    use = {"id": "b", "run": "use {{ tasks.a.outputs.v }}", "needs": ["a"], "retry": 3, "outputs": {"w": "int"}}
    ran = rehearse(plan(CHAIN[0], use), {"a": [given(v=1)], "b": [given(w=1)]})
    results = iter([BAD, given(w=2)])

    class Changing(dict[str, Outcome]):
        def get(self, name: str, default: Any = None) -> Any:
            return given(v=2) if name == "a" else next(results)

    state, acted = again(ran, picks("a"), Changing())
    assert acted == ["a", "b", "b"]
    assert state.tasks[1].outputs == {"w": 2}


def test_items_that_begin_anew_are_no_more_at_once_than_the_fan_out_allows() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": [1, 2, 3, 4], "max_parallel": 1}
    ran = rehearse(plan(fan), {})
    disk = Disk()
    state, acted = again(ran, picks("fan[0]", "fan[1]", "fan[3]"), {}, disk)
    assert acted == ["fan[0]", "fan[1]", "fan[3]"]
    under_way = most = 0
    for entry in disk.entries:
        kind = type(entry.event).__name__
        if getattr(entry.event, "task", "").startswith("fan["):
            under_way += (kind == "AttemptStarted") - (kind == "AttemptEnded")
        most = max(most, under_way)
    assert most == 1
    assert state.status == "completed"


def test_what_was_not_selected_for_the_run_does_not_begin_with_what_was() -> None:
    only = rehearse(plan(*CHAIN), {"a": [given(v=1)]}, started={"selected": ("a", "b")})
    state = only.state
    assert chosen(state, picks("a")(state)) == (["a"], ["b"])
    assert again(only, picks("a"), {"a": given(v=2)})[1] == ["a", "b"]


# Which tasks can be named


def test_a_task_of_an_earlier_round_is_refused_with_the_one_that_can_begin_anew() -> None:
    fan = {"id": "fan", "foreach": [1, 2], "subplan": [{"id": "s", "run": "x"}]}
    ran = rehearse(plan({"id": "l", "loop": {"max": 2, "tasks": [fan]}}), {})
    with pytest.raises(Unfit, match=r"`l#2/fan\[1\]/s` can be reset"):
        retried(ran.state, names("l#1/fan[1]/s")(ran.state))
    state, acted = again(ran, picks("l#2/fan[1]/s"))
    assert acted == ["l#2/fan[1]/s"]
    assert state.status == "completed"


def test_a_task_and_what_holds_it_begin_anew_together_once() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": [1, 2], "needs": ["a"], "join": "always"}
    ran = rehearse(plan({"id": "a", "run": "x"}, fan, on_failure="continue"), {"a": [BAD], "fan[1]": [BAD]})
    state, acted = again(ran, lambda state: retried(state, []))
    assert acted == ["a", "fan@2[0]", "fan@2[1]"]
    assert state.status == "completed"


def test_an_item_begun_anew_changes_what_the_fan_out_gives_and_what_follows() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": [1, 2], "outputs": {"n": "int"}}
    use = {"id": "use", "run": "x {{ tasks.fan.outputs.n }}", "needs": ["fan"]}
    other = {"id": "other", "run": "x", "needs": ["fan"]}
    ran = rehearse(plan(fan, use, other), {"fan[0]": [given(n=1)], "fan[1]": [given(n=2)]})
    state, acted = again(ran, picks("fan[1]"), {"fan[1]": given(n=7)})
    assert acted == ["fan[1]", "use"]
    assert state.tasks[0].outputs == {"n": [1, 7]}
    assert reasons(state)["other"] == "reused"


def test_what_waits_in_line_when_a_run_is_stopped_leaves_it_as_it_begins_anew() -> None:
    two = [{"id": name, "run": "x", "effect": "idempotent"} for name in ("a", "b", "c")]
    found = plan(*two, max_parallel=1)
    disk = Disk({1: True})
    state = fold(found, RUN_ID, [])
    driver = Driver(
        state, disk.append, SimulatedEffects(Script(lambda call: BAD, lambda names: {}), START), PLACE, Nobody(), 0
    )
    driver.record(RunStarted("sha256:x", {}, 7, traits=TRAITS))
    with pytest.raises(Crash):
        driver.run()
    state = fold(found, RUN_ID, disk.entries)
    waiting = [name for name in "bc" if state.tasks[state.index[name]].status == "queued"]
    assert waiting
    anew = run_again(state, names(*waiting)(state), by_call=True)
    driver = Driver(state, disk.append, _well(disk), PLACE, Nobody(), len(disk.entries))
    driver.record(RunResumed(2), reset_event(state, anew, "rerun", "ana"))
    assert not state.queue.lines
    driver.run()
    assert fold(found, RUN_ID, disk.entries).counts == state.counts
    assert state.ended_at is not None


def _well(disk: Disk) -> SimulatedEffects:
    return SimulatedEffects(Script(lambda call: given(), lambda names: {}), disk.entries[-1].at + 60)


def test_a_holder_under_finally_runs_whole_when_anything_of_its_level_did() -> None:
    tidy = {"id": "tidy", "run": "x {{ item }}", "foreach": [1, 2]}
    steps = [{"id": "one", "run": "x {{ tasks.a.outputs.v }}"}, {"id": "two", "run": "x"}]
    found = plan(FED[0], {"id": "fan", "needs": ["a"], "foreach": [1], "subplan": steps}, **{"finally": [tidy]})
    ran = rehearse(found, {"a": [given(v=1, list=[])]})
    acted = again(ran, picks("a"), {"a": given(v=2, list=[])})[1]
    assert acted == ["a", "fan@2[0]/one", "tidy@2[0]", "tidy@2[1]"]


# What is owed and spent


def undone(ran: tuple[State, list[str]], disk: Disk) -> tuple[State, list[str]]:
    """Roll the run back; the state and the tasks in the order in which they were undone."""
    state = ran[0]
    driver = Driver(state, disk.append, _well(disk), PLACE, Nobody(), len(disk.entries))
    undo = started(state, RollbackStarted("person", (), (), by="ana"), outstanding(state))
    driver.record(RunReopened("rollback", "ana"), RunResumed(3), undo)
    driver.run()
    assert replay(state.plan, RUN_ID, disk.entries).difference is None
    return state, [entry.event.task for entry in disk.entries if isinstance(entry.event, UndoSettled)]


def test_what_is_kept_is_undone_once_and_shows_that_it_was() -> None:
    back = {"run": "undo {{ item }}"}
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item }}", "rollback": back}
    use = {"id": "use", "needs": ["fan"], "run": "x", "rollback": {"run": "undo"}}
    ran = rehearse(plan(FED[0], fan, use), {"a": [given(v=1, list=["p", "q"])]})
    disk = Disk()
    second = again(ran, picks("a"), {"a": given(v=1, list=["q", "new", "p"])}, disk)
    assert second[1] == ["a", "fan@2[1]"]
    state, order = undone(second, disk)
    assert order == ["fan@2[1]", "use", "fan[1]", "fan[0]"]
    assert [state.tasks[state.index[name]].status for name in ("fan@2[0]", "fan@2[1]", "fan@2[2]", "use")] == [
        "rolled_back"
    ] * 4


def test_a_holder_that_keeps_everything_owes_what_it_owed() -> None:
    steps = [{"id": "one", "run": "x", "rollback": {"run": "undo"}}]
    sub = {"id": "sub", "needs": ["a"], "subplan": steps, "rollback": {"run": "undo"}}
    ran = rehearse(plan(FED[0], sub), {"a": [given(v=1, list=[])]})
    disk = Disk()
    second = again(ran, picks("a"), {"a": given(v=1, list=[])}, disk)
    state, order = undone(second, disk)
    assert order == ["sub/one", "sub"]
    assert state.tasks[state.index["sub"]].status == "rolled_back"


def test_what_is_kept_costs_nothing_and_needs_no_budget() -> None:
    costs = {"budgets": {"cost": "$1"}}
    fan = {"id": "fan", "needs": ["a"], "foreach": "tasks.a.outputs.list", "run": "x {{ item }}"}
    use = {"id": "use", "needs": ["fan"], "run": "x", **costs}
    found = plan({**FED[0], "run": "x"}, fan, use, budgets={"attempts": 5, "cost": "$1.50"})
    spent = given()._replace(usage={"cost": 1.0})
    ran = rehearse(found, {"a": [given(v=1, list=["p", "q"])], "use": [spent]})
    state, acted = again(ran, picks("a"), {"a": given(v=1, list=["q", "p"])})
    assert acted == ["a"]
    assert state.status == "completed"
    assert state.ledger is not None
    assert state.ledger.account(-1).spent["attempts"] == 5


def test_a_changed_call_needs_a_budget_like_any_other() -> None:
    found = plan(*CHAIN, budgets={"attempts": 4})
    ran = rehearse(found, {"a": [given(v=1)]})
    state, acted = again(ran, picks("a"), {"a": given(v=2)})
    assert acted == ["a"]
    assert (state.status, state.reason) == ("failed", "budget")


def test_rounds_that_a_limit_counts_run_again() -> None:
    loop = {**LOOP, "budgets": {"iterations": 8}}
    rounds = {f"l#{at}/t": [given(v=at)] for at in (1, 2, 3)}
    ran = rehearse(plan(FED[0], loop), {"a": [given(v=1, list=[])], **rounds})
    acted = again(ran, picks("a"), {"a": given(v=1, list=[]), **{f"l@2#{at}/t": given(v=at) for at in (1, 2, 3)}})[1]
    assert acted == ["a", "l@2#1/t", "l@2#2/t", "l@2#3/t"]


# Gates


def test_a_gate_that_sends_back_leaves_what_stands_under_finally_for_later() -> None:
    sends = {"id": "check", "run": "x", "needs": ["a"], "on_failure": {"rework": "a", "max": 1}}
    ran = rehearse(plan({"id": "a", "run": "x"}, sends, **{"finally": LAST}), {"check": [BAD, given()]})
    assert ran.order == ["a", "check", "a", "check", "last"]


# What fails after tasks began anew


PUBLISH = (
    {"id": "first", "run": "x"},
    {"id": "second", "run": "x"},
    {"id": "publish", "run": "x", "needs": ["second"]},
)
NO_VALUE = ({**PUBLISH[0], "when": "params.n // 0 == 1"}, *PUBLISH[1:])


@pytest.mark.parametrize("policy", ["stop", "cancel", "rollback"])
def test_a_failure_after_a_retry_stops_the_rest_as_it_did_at_first(policy: str) -> None:
    ran = rehearse(plan(*PUBLISH, on_failure=policy), {"first": [BAD], "second": [BAD]})
    state, acted = again(ran, lambda state: retried(state, []), {"first": BAD})
    assert sorted(acted) == ["first", "second"]
    assert state.tasks[2].status in ("cancelled", "omitted")
    assert state.status != "completed"


def test_a_condition_without_a_value_stops_the_rest_of_a_retry_too() -> None:
    ran = rehearse(plan(*NO_VALUE, params={"n": {"type": "int", "default": 1}}), {})
    assert ran.statuses()["first"] == "failed"
    state, acted = again(ran, lambda state: retried(state, []))
    assert acted == []
    assert {task.id: found.status for task, found in zip(state.specs, state.tasks)} == ran.statuses()


def test_a_retry_continues_after_a_failure_where_the_plan_says_so() -> None:
    ran = rehearse(plan(*PUBLISH, on_failure="continue"), {"first": [BAD], "second": [BAD]})
    assert again(ran, lambda state: retried(state, []), {"first": BAD})[1] == ["first", "second", "publish"]


def test_a_failure_after_a_retry_stops_the_steps_of_another_task_that_was_opened_again() -> None:
    sub = {"id": "sub", "subplan": [{"id": "one", "run": "x"}, {"id": "two", "run": "x", "needs": ["one"]}]}
    ran = rehearse(plan(PUBLISH[0], sub), {"first": [BAD], "sub/one": [BAD]})
    state, acted = again(ran, lambda state: retried(state, []), {"first": BAD})
    assert "sub/two" not in acted
    assert state.tasks[state.index["sub/two"]].status == "cancelled"


def test_what_a_failure_stopped_does_not_begin_because_a_task_before_it_was_named() -> None:
    ran = rehearse(plan(*PUBLISH), {"first": [BAD]})
    assert again(ran, picks("second", all_after=True))[1] == ["second"]
    assert again(ran, picks("second", "publish"))[1] == ["second", "publish"]


def test_what_went_well_is_compared_though_its_level_fails() -> None:
    ran = rehearse(plan(*CHAIN, {"id": "bad", "run": "x", "needs": ["c"]}), {"a": [given(v=1)], "bad": [BAD]})
    state, acted = again(ran, picks("a", by_call=True), {"a": given(v=2)})
    assert acted[:2] == ["a", "b"]
    assert reasons(state)["c"] == "reused"


def test_a_failure_after_a_rerun_stops_what_was_named_beside_it() -> None:
    ran = rehearse(plan(*PUBLISH, max_parallel=1))
    assert again(ran, picks("first", "second"), {"first": BAD})[1] == ["first"]


def test_a_further_failure_stops_what_was_named_and_waits_in_line() -> None:
    bad = {"id": "bad", "run": "x"}
    ran = rehearse(plan(bad, *PUBLISH, max_parallel=1), {"bad": [BAD]})
    state, acted = again(ran, picks("first", "second"), {"first": BAD})
    assert acted == ["first"]
    assert state.tasks[state.index["second"]].status == "cancelled"


def test_a_plan_that_is_ended_early_after_a_retry_does_not_run_its_rest() -> None:
    tasks = ({"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"], "ends_plan": True})
    rest = ({"id": "c", "run": "x", "needs": ["a"], "delay": "1h"}, {"id": "d", "run": "x", "needs": ["c"]})
    state, acted = again(rehearse(plan(*tasks, *rest), {"a": [BAD]}), lambda state: retried(state, []))
    assert acted == ["a", "b"]
    assert state.status == "completed"


INSIDE = ({"id": "make", "run": "x"}, {"id": "look", "run": "y", "needs": ["make"]})


def inside(*wanted: str) -> Any:
    return lambda state: Reset(tuple(state.index[name] for name in wanted), ())


@pytest.mark.parametrize("most", [1, 2])
def test_items_that_open_again_go_on_by_turns(most: int) -> None:
    fan = {"id": "fan", "foreach": [1, 2, 3, 4], "max_parallel": most, "subplan": list(INSIDE)}
    ran = rehearse(plan(fan))
    disk = Disk()
    state, acted = again(
        ran, inside(*(f"fan[{at}]/{task}" for at in (0, 1, 3) for task in ("make", "look"))), disk=disk
    )
    assert state.status == "completed"
    assert sorted(acted) == sorted(f"fan[{at}]/{task}" for at in (0, 1, 3) for task in ("make", "look"))
    check_items(state, disk.entries)
    assert [name for name in acted if name.endswith("make")] == ["fan[0]/make", "fan[1]/make", "fan[3]/make"]
    assert not state.turns


@pytest.mark.parametrize("most", [1, 2])
def test_items_that_open_again_and_items_that_begin_anew_share_the_turns(most: int) -> None:
    fan = {"id": "fan", "foreach": [1, 2, 3, 4], "max_parallel": most, "subplan": list(INSIDE)}
    ran = rehearse(plan(fan))
    disk = Disk()
    state, acted = again(ran, inside("fan[0]", "fan[1]/make", "fan[2]", "fan[3]/make"), disk=disk)
    assert (state.status, dict(state.turns)) == ("completed", {})
    anew = {"fan[0]@2/make", "fan[0]@2/look", "fan[2]@2/make", "fan[2]@2/look"}
    assert set(acted) == {*anew, "fan[1]/make", "fan[3]/make"}
    check_items(state, disk.entries)


def test_an_item_that_fails_again_lets_the_others_neither_wait_nor_begin() -> None:
    fan = {"id": "fan", "foreach": [1, 2, 3], "max_parallel": 1, "subplan": list(INSIDE)}
    ran = rehearse(plan(fan))
    state, acted = again(ran, inside(*(f"fan[{at}]/make" for at in range(3))), {"fan[0]/make": BAD})
    assert (acted, state.status, dict(state.turns)) == (["fan[0]/make"], "failed", {})
    tolerant = rehearse(plan({**fan, "tolerate": 1}))
    state, acted = again(tolerant, inside(*(f"fan[{at}]/make" for at in range(3))), {"fan[0]/make": BAD})
    assert (acted, state.status) == (["fan[0]/make", "fan[1]/make", "fan[2]/make"], "completed")


def test_what_opens_again_took_no_time_while_it_was_over() -> None:
    ran = rehearse(plan({"id": "fan", "foreach": [1, 2], "subplan": list(INSIDE)}))
    state, _ = again(ran, inside("fan[0]/look"))  # a minute later
    took = {name: elapsed(state.tasks[state.index[name]], state.now) for name in ("fan", "fan[0]", "fan[1]")}
    assert took == {"fan": 3.0, "fan[0]": 3.0, "fan[1]": 2.0}


@pytest.mark.parametrize("limit", ["timeout", "timebox"])
def test_the_time_of_an_item_that_opens_again_begins_with_its_turn(limit: str) -> None:
    held = {"max": 1, "tasks": [{"id": "make", "run": "x"}]}
    ran = rehearse(plan({"id": "fan", "foreach": [1, 2, 3], "max_parallel": 1, "loop": held, limit: "90s"}))
    made = [name for name in ran.state.index if name.endswith("make")]
    slow = Outcome(exit_code=0, duration=60.0)
    state, acted = again(ran, inside(*made), dict.fromkeys(made, slow))
    assert (acted, state.status) == (made, "completed")
    late = {made[1]: Outcome(exit_code=0, duration=120.0)}
    state, acted = again(ran, inside(*made), {**dict.fromkeys(made, slow), **late})
    assert (acted, state.status) == (made[:2], "failed")


def test_fan_outs_in_fan_outs_open_again_by_turns() -> None:
    inner = {"id": "in", "foreach": [1, 2, 3], "max_parallel": 1, "subplan": list(INSIDE)}
    ran = rehearse(plan({"id": "out", "foreach": [1, 2], "max_parallel": 1, "subplan": [inner]}))
    made = [name for name in ran.state.index if name.endswith("/make")]
    disk = Disk()
    state, acted = again(ran, inside(*made), disk=disk)
    assert (acted, state.status) == (sorted(made), "completed")
    check_items(state, disk.entries)
