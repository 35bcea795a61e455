"""Linked plans with ``on_failure: rollback``: what was done inside is undone before the attempt that links them ends."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import workbench
from simulator.rehearsal import Rehearsal, rehearse
from simulator.runs import PLACE, Disk, Nobody

from planrunner.capabilities.contract import Call
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.compensation import outstanding, started
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Outcome,
    RollbackEnded,
    RollbackStarted,
    RunReopened,
    RunResumed,
    StopRequested,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.rollback import rollback_lines, rollback_object
from planrunner.views.terminal import Terminal
from planrunner.views.tree import tree

if TYPE_CHECKING:
    from planrunner.machine.events import Event

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
GOOD = Outcome(exit_code=0, duration=1.0)
RUN = "20231114-2213-000000"


def task(name: str, *needs: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", "needs": list(needs), "rollback": {"run": "undo"}, **keys}


def box(*tasks: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A plan to link, which is undone when it fails."""
    return {"on_failure": "rollback", "tasks": list(tasks), **keys}


def plan(inner: dict[str, Any], *tasks: dict[str, Any], **keys: Any) -> Plan:
    subplans = {"inner": inner, **keys.pop("subplans", {})}
    return workbench.plan(*tasks, subplans=subplans, **keys)


AB = box(task("a"), task("b", "a"), {"id": "bad", "run": "x", "needs": ["b"], "effect": "read"})


def undone(entries: Sequence[Entry], fate: str = "undone") -> list[str]:
    """The tasks in the order in which they were undone."""
    return [e.event.task for e in entries if isinstance(e.event, UndoSettled) and e.event.status == fate]


def at(entries: Sequence[Entry], kind: type, **fields: Any) -> int:
    """The number of the first entry of a kind with these fields."""
    return next(
        e.seq
        for e in entries
        if isinstance(e.event, kind) and all(getattr(e.event, name) == value for name, value in fields.items())
    )


def go_on(
    before: Sequence[Entry], spec: Plan, *events: Event, outcomes: Mapping[str, Outcome] = {}
) -> tuple[State, list[Entry]]:
    """Take the run up again with ``events`` after its resumption."""
    state = fold(spec, RUN, before)
    disk = Disk()
    disk.entries = list(before)

    def outcome(call: Call) -> Outcome:
        return outcomes.get(call.name, GOOD)

    effects = SimulatedEffects(Script(outcome, lambda names: {}), before[-1].at + 1)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(before))
    driver.record(*([RunReopened("rollback")] if state.ended_at is not None else []), RunResumed(2), *events)
    driver.run()
    assert replay(spec, RUN, disk.entries).difference is None
    return state, disk.entries


def ran(spec: Plan, outcomes: Mapping[str, Sequence[Outcome]]) -> Rehearsal:
    found = rehearse(spec, outcomes)
    assert replay(spec, RUN, found.entries).difference is None
    return found


# In order


def test_a_linked_plan_that_fails_is_undone_backwards_before_the_attempt_ends() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    assert undone(found.entries) == ["build/b", "build/a"]
    ended = at(found.entries, AttemptEnded, task="build")
    assert at(found.entries, RollbackEnded, within="build") < ended
    assert found.statuses()["build"] == "failed"
    assert found.state.tasks[0].detail == "`build/bad` failed: exit code 1; 2 steps were undone"
    assert (found.state.status, found.state.reason) == ("failed", "failed")


def test_a_linked_plan_that_goes_well_or_does_not_ask_for_it_is_not_undone() -> None:
    assert undone(ran(plan(AB, {"id": "build", "subplan": "inner"}), {}).entries) == []
    stops = plan({**AB, "on_failure": "stop"}, {"id": "build", "subplan": "inner"})
    assert undone(ran(stops, {"build/bad": [BAD]}).entries) == []


def test_another_attempt_of_the_holder_begins_from_a_clean_state() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner", "retry": {"attempts": 2, "delay": "1s"}})
    found = ran(spec, {"build/bad": [BAD]})
    assert found.state.status == "completed"
    assert undone(found.entries) == ["build/b", "build/a"]
    last = max(e.seq for e in found.entries if isinstance(e.event, UndoSettled))
    assert last < at(found.entries, AttemptStarted, task="build@2/a")
    twice = ran(spec, {"build/bad": [BAD], "build@2/bad": [BAD]})
    assert undone(twice.entries) == ["build/b", "build/a", "build@2/b", "build@2/a"]


def test_a_handler_finds_it_undone_and_may_stand_in() -> None:
    spec = plan(
        AB,
        {"id": "build", "subplan": "inner", "on_failure": {"to": "other", "recovers": True}},
        {"id": "other", "run": "x"},
    )
    found = ran(spec, {"build/bad": [BAD]})
    assert found.state.status == "completed"
    assert at(found.entries, RollbackEnded, within="build") < at(found.entries, AttemptStarted, task="other")


def test_the_plan_around_it_does_not_undo_it_again() -> None:
    spec = plan(AB, task("first"), {"id": "build", "subplan": "inner", "needs": ["first"]}, on_failure="rollback")
    found = ran(spec, {"build/bad": [BAD]})
    assert undone(found.entries) == ["build/b", "build/a", "first"]
    assert (found.state.status, found.state.reason) == ("failed", "rolled_back")


def test_what_could_not_be_undone_inside_is_tried_again_by_the_plan_around_it() -> None:
    spec = plan(AB, task("first"), {"id": "build", "subplan": "inner", "needs": ["first"]}, on_failure="rollback")
    found = ran(spec, {"build/bad": [BAD], "undo:build/a": [BAD, GOOD]})
    assert undone(found.entries) == ["build/b", "build/a", "first"]
    assert found.state.reason == "rolled_back"
    keys = [e.event.key for e in found.entries if isinstance(e.event, UndoStarted) and e.event.task == "build/a"]
    assert keys == [f"{RUN}:build/a:undo:1", f"{RUN}:build/a:undo:2"]


def test_its_own_finally_comes_after_it_was_undone() -> None:
    inner = {**AB, "finally": [{"id": "end", "run": "x"}]}
    found = ran(plan(inner, {"id": "build", "subplan": "inner"}), {"build/bad": [BAD]})
    assert at(found.entries, RollbackEnded, within="build") < at(found.entries, AttemptStarted, task="build/end")
    assert found.state.tasks[0].detail.startswith("`build/bad` failed")


def test_only_what_its_policy_names_is_undone() -> None:
    inner = box(
        task("a", labels=["cloud"]),
        task("b", "a"),
        {"id": "bad", "run": "x", "needs": ["b"]},
        rollback={"only": ["cloud"]},
    )
    assert undone(ran(plan(inner, {"id": "build", "subplan": "inner"}), {"build/bad": [BAD]}).entries) == ["build/a"]


# What cannot be undone


def test_the_holder_says_what_could_not_be_undone() -> None:
    inner = box(task("a"), task("b", "a"), {"id": "bad", "run": "x", "needs": ["b"]})
    found = ran(plan(inner, {"id": "build", "subplan": "inner"}), {"build/bad": [BAD], "undo:build/b": [BAD]})
    assert undone(found.entries) == ["build/a"]
    assert found.state.tasks[0].detail == (
        "`build/bad` failed: exit code 1; 1 step was undone; not undone: "
        "`build/b` (logic: exit code 1), `build/bad` (it does not say how)"
    )
    report = rollback_object(found.state)
    assert report is not None
    (linked,) = report["linked"]
    assert (report["status"], linked["task"], linked["status"]) == (None, "build", "rollback_failed")
    assert [(step["task"], step["status"]) for step in linked["steps"]] == [
        ("build/b", "failed"),
        ("build/a", "undone"),
    ]


def test_best_effort_tries_the_holder_again_and_strict_does_not() -> None:
    holder = {"id": "build", "subplan": "inner", "retry": {"attempts": 2, "delay": "1s"}}
    outcomes = {"build/bad": [BAD], "undo:build/b": [BAD]}
    assert ran(plan(AB, holder), outcomes).state.status == "completed"
    strict = ran(plan({**AB, "rollback": {"mode": "strict"}}, holder), outcomes)
    assert strict.state.status == "failed"
    assert undone(strict.entries, "left") == ["build/a"]
    assert strict.state.tasks[0].detail.endswith("not tried again, since its rollback is strict")
    clean = ran(plan({**AB, "rollback": {"mode": "strict"}}, holder), {"build/bad": [BAD]})
    assert clean.state.status == "completed"


def test_an_undo_inside_is_tried_again_by_its_own_rule() -> None:
    inner = box(
        task("a", rollback={"run": "undo", "retry": {"attempts": 2, "delay": "30s"}}),
        {"id": "bad", "run": "x", "needs": ["a"], "effect": "read"},
    )
    spec = plan(inner, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD], "undo:build/a": [BAD, GOOD]})
    assert undone(found.entries) == ["build/a"]


# Nested


def test_items_of_a_fan_out_are_undone_side_by_side_each_in_its_order() -> None:
    spec = plan(AB, {"id": "fan", "foreach": [1, 2, 3], "subplan": "inner", "tolerate": 3})
    found = ran(spec, {"fan[0]/bad": [BAD], "fan[2]/bad": [BAD]})
    for item in ("fan[0]", "fan[2]"):
        mine = [name for name in undone(found.entries) if name.startswith(item)]
        assert mine == [f"{item}/b", f"{item}/a"]
    assert len(undone(found.entries)) == 4
    assert found.state.status == "completed"
    starts = [e.seq for e in found.entries if isinstance(e.event, RollbackStarted)]
    assert max(starts) < at(found.entries, RollbackEnded), "they go on at once"


def test_no_more_undos_go_on_at_once_than_tasks_may() -> None:
    spec = plan(AB, {"id": "fan", "foreach": list(range(6)), "subplan": "inner"}, max_parallel=2)
    found = ran(spec, {f"fan[{item}]/bad": [BAD] for item in range(6)})
    going = most = 0
    for entry in found.entries:
        going += isinstance(entry.event, UndoStarted)
        going -= isinstance(entry.event, UndoSettled)
        most = max(most, going)
    assert 1 <= most <= 2
    begun = {e.event.task for e in found.entries if isinstance(e.event, AttemptStarted) and e.event.task[-2:] == "/a"}
    assert {name for name in undone(found.entries) if name[-2:] == "/a"} == begun


def test_a_linked_plan_inside_a_linked_plan_is_undone_once_and_first() -> None:
    outer = box(task("before"), {"id": "deep", "subplan": "inner", "needs": ["before"]})
    spec = plan(AB, {"id": "top", "subplan": "outer"}, subplans={"outer": outer})
    found = ran(spec, {"top/deep/bad": [BAD]})
    assert undone(found.entries) == ["top/deep/b", "top/deep/a", "top/before"]
    assert at(found.entries, RollbackEnded, within="top/deep") < at(found.entries, RollbackStarted, within="top")


def test_rounds_inside_a_linked_plan_are_undone_backwards() -> None:
    loop = {"id": "loop", "loop": {"max": 2, "tasks": [task("t")]}}
    inner = box(loop, {"id": "bad", "run": "x", "needs": ["loop"], "effect": "read"})
    found = ran(plan(inner, {"id": "build", "subplan": "inner"}), {"build/bad": [BAD]})
    assert undone(found.entries) == ["build/loop#2/t", "build/loop#1/t"]


def test_a_round_of_a_loop_that_fails_leaves_nothing_of_the_linked_plan_in_it() -> None:
    body = [{"id": "try", "subplan": "inner"}]
    spec = plan(AB, {"id": "loop", "loop": {"max": 2, "until": "tasks.try.ok", "tasks": body}})
    found = ran(spec, {"loop#1/try/bad": [BAD]})
    assert undone(found.entries) == ["loop#1/try/b", "loop#1/try/a"]
    assert found.state.status == "completed"


# Time, budgets, cancelled


def test_a_holder_that_runs_too_long_is_undone_and_its_time_does_not_count_for_that() -> None:
    inner = {**AB, "finally": [{"id": "end", "run": "x"}]}
    spec = plan(inner, {"id": "build", "subplan": "inner", "timeout": "10s"})
    slow = Outcome(exit_code=0, duration=100.0)
    found = ran(spec, {"build/b": [slow], "undo:build/b": [slow], "undo:build/a": [slow]})
    assert undone(found.entries) == ["build/b", "build/a"]
    assert (found.state.tasks[0].status, found.state.tasks[0].failure) == ("failed", "timeout")
    fails = ran(spec, {"build/bad": [BAD], "undo:build/b": [slow], "undo:build/a": [slow]})
    assert (fails.state.tasks[0].failure, fails.statuses()["build/end"]) == ("logic", "completed")


def test_the_reserve_of_its_policy_bounds_the_time_of_its_rollback() -> None:
    inner = {**AB, "rollback": {"budgets": {"time": "1m"}}}
    slow = Outcome(exit_code=0, duration=300.0)
    found = ran(plan(inner, {"id": "build", "subplan": "inner"}), {"build/bad": [BAD], "undo:build/b": [slow]})
    assert undone(found.entries, "failed") == ["build/b"]
    assert undone(found.entries, "left") == ["build/a"]


def test_what_is_around_it_running_out_of_time_undoes_it_as_well() -> None:
    around = {"id": "top", "timeout": "10s", "subplan": [{"id": "build", "subplan": "inner"}]}
    found = ran(plan(AB, around), {"top/build/b": [Outcome(exit_code=0, duration=100.0)]})
    assert undone(found.entries) == ["top/build/b", "top/build/a"]
    assert found.statuses()["top/build"] == "cancelled"


def test_a_failure_beside_it_undoes_what_is_cut_off() -> None:
    gate = {"id": "wait", "needs": ["a"], "run": "x", "effect": "read"}
    inner = box(task("a"), gate, {"id": "then", "run": "x", "needs": ["wait"]})
    spec = plan(inner, {"id": "build", "subplan": "inner"}, {"id": "beside", "run": "x"})
    found = ran(spec, {"beside": [Outcome("logic", "no", exit_code=1, duration=2.0)]})
    assert undone(found.entries) == ["build/a"]
    assert found.statuses()["build"] == "cancelled"


def test_a_run_that_somebody_cancelled_is_left_as_it_is() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    before = [e for e in found.entries if e.seq < at(found.entries, AttemptEnded, task="build/b")]
    state, entries = go_on(before, spec, StopRequested("cancelled"))
    assert (state.status, undone(entries)) == ("cancelled", [])


# Interrupted


def test_an_undo_inside_that_was_cut_off_is_issued_again_with_its_key() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/a")
    state, entries = go_on([e for e in found.entries if e.seq <= seq], spec)
    keys = [(e.event.key, e.event.reissue) for e in entries if isinstance(e.event, UndoStarted)]
    assert keys[1:] == [(f"{RUN}:build/a:undo:1", 0), (f"{RUN}:build/a:undo:1", 1)]
    assert state.tasks[0].detail == "`build/bad` failed: exit code 1; 2 steps were undone"


def test_a_rollback_inside_that_is_stopped_in_order_parks_and_goes_on() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/b")
    state, entries = go_on([e for e in found.entries if e.seq <= seq], spec, StopRequested("interrupted"))
    assert (state.status, state.reason) == ("paused", "interrupted")
    state, entries = go_on(entries, spec)
    assert (undone(entries), state.status) == (["build/b", "build/a"], "failed")


def test_a_rollback_inside_that_is_cancelled_ends_and_tells_what_is_left() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/a")
    state, entries = go_on([e for e in found.entries if e.seq <= seq], spec, StopRequested("cancelled"))
    assert (state.status, undone(entries)) == ("cancelled", ["build/b"])
    cut_off = "cut off: whether it was undone is not known"
    assert f"not undone: `build/a` ({cut_off})" in state.tasks[0].detail
    assert (state.tasks[1].status, state.tasks[1].detail) == ("completed", cut_off)
    report = "\n".join(rollback_lines(Terminal(io.StringIO()), state))
    assert f"build/a {cut_off}" in report
    assert "still to undo" not in report
    event = started(state, RollbackStarted("person", (), (), by="ada"), outstanding(state))
    state, entries = go_on(entries, spec, event)
    assert undone(entries) == ["build/b", "build/a"]
    assert (state.tasks[1].status, state.tasks[1].detail) == ("rolled_back", "it had completed, and was undone")
    report = "\n".join(rollback_lines(Terminal(io.StringIO()), state))
    assert "cut off" not in report
    assert "the rest was undone later" in report
    assert "build/a undone" in report


def test_a_step_that_a_cancelled_rollback_did_not_come_to_is_still_to_undo_until_it_is_undone() -> None:
    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/b")
    state, entries = go_on([e for e in found.entries if e.seq <= seq], spec, StopRequested("killed"))
    assert "`build/a` (not tried)" in state.tasks[0].detail
    report = "\n".join(rollback_lines(Terminal(io.StringIO()), state))
    assert "build/b cut off: whether it was undone is not known" in report
    assert "still to undo: build/a" in report
    event = started(state, RollbackStarted("person", (), (), by="ada"), outstanding(state))
    state, entries = go_on(entries, spec, event)
    assert "still to undo" not in "\n".join(rollback_lines(Terminal(io.StringIO()), state))


def test_a_doubt_inside_is_undone_first_and_then_the_rest() -> None:
    inner = box(task("a"), task("b", "a", on_doubt="rollback"))
    spec = plan(inner, {"id": "build", "subplan": "inner"})
    found = ran(spec, {})
    seq = at(found.entries, AttemptStarted, task="build/b")
    state, entries = go_on([e for e in found.entries if e.seq <= seq], spec)
    assert undone(entries) == ["build/b", "build/a"]
    assert (state.tasks[0].status, state.tasks[0].failure) == ("failed", "doubt")


def test_a_person_who_rolls_the_run_back_waits_for_what_is_being_undone_inside() -> None:
    spec = plan(AB, task("first"), {"id": "build", "subplan": "inner", "needs": ["first"]})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/b")
    before = [e for e in found.entries if e.seq <= seq]
    waiting = fold(spec, RUN, before)
    event = started(waiting, RollbackStarted("person", (), (), by="ada"), outstanding(waiting))
    assert event.tasks == ("first",)
    state, entries = go_on(before, spec, event)
    assert undone(entries) == ["build/b", "build/a", "first"]
    assert state.reason == "rolled_back"


def test_a_retry_by_a_person_does_what_was_undone_again_and_undoes_it_again_when_it_fails() -> None:
    from planrunner.machine.rework import reset_event, retried

    spec = plan(AB, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    event = reset_event(found.state, retried(found.state, ()), "retry", "ada")
    again, entries = go_on(found.entries, spec, event)
    assert (again.status, [e.event.task for e in entries if isinstance(e.event, AttemptStarted)].count("build/a")) == (
        "completed",
        2,
    )
    worse, entries = go_on(found.entries, spec, event, outcomes={"build/bad": BAD})
    assert undone(entries) == ["build/b", "build/a"] * 2
    assert worse.status == "failed"


def test_a_retry_after_everything_was_undone_does_each_task_once() -> None:
    from planrunner.machine.rework import reset_event, retried

    spec = plan(
        AB,
        task("first"),
        {"id": "fan", "foreach": [0, 1], "subplan": "inner", "needs": ["first"]},
        on_failure="rollback",
    )
    found = ran(spec, {"fan[1]/bad": [BAD]})
    assert sorted(undone(found.entries)) == ["fan[0]/a", "fan[0]/b", "fan[1]/a", "fan[1]/b", "first"]
    anew = retried(found.state, ())
    assert [found.state.specs[number].id for number in anew.again] == ["first", "fan"]
    state, entries = go_on(found.entries, spec, reset_event(found.state, anew, "retry", "ada"))
    again = [e.event.task for e in entries[len(found.entries) :] if isinstance(e.event, AttemptStarted)]
    assert sorted(again) == sorted(set(again)) and not [name for name in again if name.startswith("fan[")]
    assert state.status == "completed"


def test_its_own_finally_runs_though_a_person_rolls_the_run_back_meanwhile() -> None:
    inner = {**AB, "finally": [{"id": "end", "run": "x"}]}
    spec = plan(inner, {"id": "build", "subplan": "inner"})
    found = ran(spec, {"build/bad": [BAD]})
    seq = at(found.entries, UndoStarted, task="build/b")
    before = [e for e in found.entries if e.seq <= seq]
    event = started(fold(spec, RUN, before), RollbackStarted("person", (), (), by="ada"), [])
    state, entries = go_on(before, spec, event)
    assert undone(entries) == ["build/b", "build/a"]
    assert state.tasks[state.index["build/end"]].status == "completed"
    assert state.reason == "rolled_back"


def test_a_fan_out_of_which_everything_was_undone_is_shown_as_undone() -> None:
    fan = {"id": "fan", "foreach": ["a", "b"], "run": "work", "rollback": {"run": "undo"}}
    spec = plan(AB, fan, {"id": "bad", "run": "x", "needs": ["fan"], "effect": "read"}, on_failure="rollback")
    found = ran(spec, {"bad": [BAD]})
    lines = tree(Terminal(io.StringIO()), found.state, 0.0)
    sign = Terminal(io.StringIO()).sign("rolled_back")
    assert [line.split()[0] for line in lines if "bad" not in line] == [sign] * 3
    assert "completed and undone" in lines[0]


def test_a_fan_out_of_which_something_could_not_be_undone_is_not_shown_as_undone() -> None:
    fan = {"id": "fan", "foreach": ["a", "b"], "run": "work", "rollback": {"run": "undo"}}
    spec = plan(AB, fan, {"id": "bad", "run": "x", "needs": ["fan"], "effect": "read"}, on_failure="rollback")
    found = ran(spec, {"bad": [BAD], "fan[0]": [GOOD, BAD]})
    before = [e for e in found.entries if e.seq < at(found.entries, UndoSettled, task="fan[1]")]
    state, _ = go_on(before, spec, StopRequested("killed"))
    assert not any("completed and undone" in line for line in tree(Terminal(io.StringIO()), state, 0.0))
