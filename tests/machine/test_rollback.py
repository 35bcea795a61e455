"""Rollback on a virtual clock: what is undone, in which order, and what becomes of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import workbench
from simulator.rehearsal import Rehearsal, rehearse
from simulator.runs import PLACE, Disk, Nobody

from planrunner.capabilities.contract import Call
from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.compensation import outstanding, started
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BackupMade,
    Entry,
    LeftAlone,
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
from planrunner.machine.rollback import undoing
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.rollback import rollback_object

if TYPE_CHECKING:
    from planrunner.machine.events import Event

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
GOOD = Outcome(exit_code=0, duration=1.0)


plan = partial(workbench.plan, on_failure="rollback")


def task(name: str, *needs: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", "needs": list(needs), "rollback": {"run": "undo"}, **keys}


def undone(entries: Sequence[Entry]) -> list[str]:
    """The tasks in the order in which they were undone."""
    return [e.event.task for e in entries if isinstance(e.event, UndoSettled) and e.event.status == "undone"]


def go_on(
    before: Rehearsal | Sequence[Entry], spec: Plan, *events: Event, outcomes: Mapping[str, Outcome] = {}
) -> tuple[State, list[Entry]]:
    """Take the run up again with ``events`` after its resumption."""
    entries = list(before.entries if isinstance(before, Rehearsal) else before)
    state = fold(spec, "20231114-2213-000000", entries)
    disk = Disk()
    disk.entries = list(entries)

    def outcome(call: Call) -> Outcome:
        return outcomes.get(call.name, GOOD)

    effects = SimulatedEffects(Script(outcome, lambda names: {}), entries[-1].at + 1)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(entries))
    driver.record(*([RunReopened("rollback")] if state.ended_at is not None else []), RunResumed(2), *events)
    driver.run()
    assert fold(spec, "20231114-2213-000000", disk.entries).counts == state.counts
    return state, disk.entries


def cut(ran: Rehearsal, task: str) -> list[Entry]:
    """The journal of a runner that died while the last attempt of ``task`` went on."""
    last = max(e.seq for e in ran.entries if isinstance(e.event, AttemptStarted) and e.event.task == task)
    return [entry for entry in ran.entries if entry.seq <= last]


# After a failure


def test_what_started_last_is_undone_first_and_finally_comes_after() -> None:
    end = {"id": "end", "run": "x"}
    ran = rehearse(plan(task("a"), task("b", "a"), task("c", "b"), **{"finally": [end]}), {"c": [BAD]})
    assert undone(ran.entries) == ["c", "b", "a"]
    assert ran.statuses() == {"a": "rolled_back", "b": "rolled_back", "c": "rolled_back", "end": "completed"}


def test_what_finally_does_is_neither_undone_nor_the_beginning_of_another_rollback() -> None:
    ends = [task("one"), {"id": "two", "needs": ["one"], "subplan": [task("step"), task("last", "step")]}]
    ran = rehearse(plan(task("a"), task("b", "a"), **{"finally": ends}), {"b": [BAD]})
    assert undone(ran.entries) == ["b", "a"]
    assert sum(isinstance(each.event, RollbackStarted) for each in ran.entries) == 1


def test_a_task_whose_call_has_no_value_is_none_that_a_rollback_leaves() -> None:
    spec = plan(task("a", stdout="json"), task("b", "a", run="echo {{ tasks.a.outputs.json.gone }}"))
    ran = rehearse(spec, {"a": [GOOD._replace(outputs={"json": {}})]})
    (began,) = (each.event for each in ran.entries if isinstance(each.event, RollbackStarted))
    assert (undone(ran.entries), began.bare) == (["a"], ())


def test_an_attempt_that_was_refused_before_it_acted_leaves_owed_what_the_one_before_it_did() -> None:
    refused = Outcome("policy", "denied", acted=False)
    retry = {"attempts": 3, "on": ["logic", "policy"]}
    ran = rehearse(plan(task("a", retry=retry), task("b", "a", retry=retry)), {"b": [refused, refused, refused]})
    assert (undone(ran.entries), ran.statuses()) == (["a"], {"a": "rolled_back", "b": "failed"})
    ran = rehearse(plan(task("a", retry=retry)), {"a": [BAD, refused, refused]})
    assert (undone(ran.entries), ran.statuses()) == (["a"], {"a": "rolled_back"})
    assert (ran.state.status, ran.state.reason) == ("failed", "rolled_back")
    ended = next(e.seq for e in ran.entries if isinstance(e.event, RollbackEnded))
    assert all(e.seq > ended for e in ran.entries if getattr(e.event, "task", "") == "end")


def test_one_undo_at_a_time() -> None:
    ran = rehearse(
        plan(*(task(name) for name in "abcd"), {"id": "bad", "run": "x", "needs": list("abcd")}), {"bad": [BAD]}
    )
    open_undos = most = 0
    for entry in ran.entries:
        open_undos += isinstance(entry.event, UndoStarted)
        open_undos -= isinstance(entry.event, UndoSettled)
        most = max(most, open_undos)
    assert (most, len(undone(ran.entries))) == (1, 4)


def test_a_task_that_never_started_is_not_undone() -> None:
    ran = rehearse(plan(task("a"), {"id": "bad", "run": "x", "needs": ["a"]}, task("later", "bad")), {"bad": [BAD]})
    assert undone(ran.entries) == ["a"]
    assert ran.statuses()["later"] in ("omitted", "cancelled")


def test_a_run_that_goes_well_undoes_nothing() -> None:
    ran = rehearse(plan(task("a"), task("b", "a")))
    assert ran.state.status == "completed"
    assert not any(isinstance(e.event, RollbackStarted) for e in ran.entries)


def test_a_retried_task_is_undone_once_and_stands_where_its_last_attempt_started() -> None:
    spec = plan(
        task("flaky", retry={"attempts": 2, "delay": "10s"}),
        task("beside"),
        {"id": "bad", "run": "x", "needs": ["flaky"]},
    )
    ran = rehearse(spec, {"flaky": [BAD, GOOD], "bad": [BAD]})
    assert undone(ran.entries) == ["flaky", "beside"]


def test_the_action_reads_the_outputs_of_its_task() -> None:
    make = task(
        "make", outputs={"name": "string"}, rollback={"run": "rm {{ outputs.name }} {{ tasks.make.outputs.name }}"}
    )
    spec = plan(make, {"id": "bad", "run": "x", "needs": ["make"]})
    ran = rehearse(spec, {"make": [Outcome(outputs={"name": "v1"}, exit_code=0)], "bad": [BAD]})
    assert ran.statuses()["make"] == "rolled_back"
    failing = rehearse(spec, {"make": [BAD]})
    report = rollback_object(failing.state)
    assert report is not None and report["status"] == "rollback_failed"
    assert "name" in report["steps"][0]["detail"]


def test_a_failed_undo_is_tried_again_and_then_given_up() -> None:
    spec = plan(
        task("a"), task("b", "a", rollback={"run": "undo", "retry": 2}), {"id": "bad", "run": "x", "needs": ["b"]}
    )
    ran = rehearse(spec, {"bad": [BAD], "undo:b": [BAD, GOOD]})
    assert undone(ran.entries) == ["b", "a"]
    keys = [e.event.key for e in ran.entries if isinstance(e.event, UndoStarted) and e.event.task == "b"]
    assert keys == ["20231114-2213-000000:b:undo:1", "20231114-2213-000000:b:undo:2"]
    worse = rehearse(spec, {"bad": [BAD], "undo:b": [BAD]})
    assert (worse.state.reason, undone(worse.entries)) == ("rollback_failed", ["a"])
    assert worse.statuses()["b"] == "completed"
    assert worse.state.tasks[1].reason == "rollback_failed"


def test_a_strict_rollback_stops_at_the_first_that_fails_and_names_the_rest() -> None:
    spec = plan(task("a"), task("b", "a"), {"id": "bad", "run": "x", "needs": ["b"]}, rollback={"mode": "strict"})
    ran = rehearse(spec, {"bad": [BAD], "undo:b": [BAD]})
    report = rollback_object(ran.state)
    assert report is not None
    assert [(step["task"], step["status"]) for step in report["steps"]] == [("b", "failed"), ("a", "left")]
    assert "`b` could not be undone" in report["steps"][1]["detail"]


def test_only_tasks_with_a_label_are_undone() -> None:
    spec = plan(
        task("a", labels=["cloud"]),
        task("b", "a"),
        {"id": "bad", "run": "x", "needs": ["b"]},
        rollback={"only": ["cloud"]},
    )
    ran = rehearse(spec, {"bad": [BAD]})
    assert undone(ran.entries) == ["a"]
    assert ran.statuses()["b"] == "completed"


def test_the_report_names_what_acted_and_does_not_say_how_it_is_undone() -> None:
    spec = plan(task("a"), {"id": "bare", "run": "x", "needs": ["a"]}, {"id": "look", "run": "x", "effect": "read"})
    ran = rehearse(spec, {"bare": [BAD]})
    report = rollback_object(ran.state)
    assert report is not None and report["bare"] == ["bare"]


def test_the_time_budget_of_the_run_does_not_stop_its_rollback_and_the_reserve_does() -> None:
    slow = task("b", "a")
    spec = plan(task("a"), slow, budgets={"time": "90s"})
    late = Outcome(exit_code=0, duration=500.0)
    ran = rehearse(spec, {"b": [late], "undo:b": [Outcome(exit_code=0, duration=300.0)]})
    assert undone(ran.entries) == ["b", "a"]
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")
    less = plan(task("a"), slow, budgets={"time": "90s"}, rollback={"budgets": {"time": "1m"}})
    stopped = rehearse(less, {"b": [late], "undo:b": [Outcome(exit_code=0, duration=300.0)]})
    report = rollback_object(stopped.state)
    assert report is not None
    assert [(step["task"], step["status"]) for step in report["steps"]] == [("b", "failed"), ("a", "left")]


# Nested and repeated


def test_instances_are_undone_across_levels_in_the_order_of_their_starts() -> None:
    inner = [task("x"), task("y", "x")]
    box = {"id": "box", "foreach": [1, 2], "max_parallel": 1, "subplan": inner, "rollback": {"run": "undo the box"}}
    spec = plan(task("first"), {**box, "needs": ["first"]}, {"id": "bad", "run": "x", "needs": ["box"]})
    ran = rehearse(spec, {"bad": [BAD]})
    assert undone(ran.entries)[:2] == ["box[1]/y", "box[1]/x"]
    assert undone(ran.entries)[-1] == "first"
    assert set(undone(ran.entries)) >= {"box[0]/y", "box[0]/x"}


def test_rounds_of_a_loop_are_undone_backwards() -> None:
    loop = {"id": "loop", "loop": {"max": 3, "tasks": [task("t")]}}
    ran = rehearse(plan(loop, {"id": "bad", "run": "x", "needs": ["loop"]}), {"bad": [BAD]})
    assert undone(ran.entries) == ["loop#3/t", "loop#2/t", "loop#1/t"]


def test_each_visit_of_a_task_that_was_sent_back_is_undone_with_its_own_outputs() -> None:
    code = task("code", outputs={"v": "string"}, rollback={"run": "drop {{ outputs.v }}"})
    test = {"id": "test", "run": "x", "needs": ["code"], "on_failure": {"rework": "code", "max": 1}}
    spec = plan(code, test)
    outcomes = {"code": [Outcome(outputs={"v": v}, exit_code=0) for v in ("one", "two")], "test": [BAD]}
    ran = rehearse(spec, outcomes)
    assert undone(ran.entries) == ["code", "code"]
    inputs = [e.event.inputs for e in ran.entries if isinstance(e.event, UndoStarted)]
    assert len(set(inputs)) == 2, "each was rendered with what its visit gave"


# Interrupted


def test_an_undo_that_was_cut_off_is_issued_again_with_its_key_and_those_that_ended_are_not() -> None:
    spec = plan(task("a"), task("b", "a"), {"id": "bad", "run": "x", "needs": ["b"]})
    ran = rehearse(spec, {"bad": [BAD]})
    at = next(e.seq for e in ran.entries if isinstance(e.event, UndoStarted) and e.event.task == "a")
    state, entries = go_on([e for e in ran.entries if e.seq <= at], spec)
    undos = [(e.event.task, e.event.key, e.event.reissue) for e in entries if isinstance(e.event, UndoStarted)]
    key = "20231114-2213-000000:a:undo:1"
    assert undos[1:] == [("a", key, 0), ("a", key, 1)]
    assert undone(entries) == ["b", "a"]
    assert state.reason == "rolled_back"


def test_a_rollback_that_is_stopped_in_order_parks_and_goes_on() -> None:
    spec = plan(task("a"), task("b", "a"), {"id": "bad", "run": "x", "needs": ["b"]})
    ran = rehearse(spec, {"bad": [BAD]})
    at = next(e.seq for e in ran.entries if isinstance(e.event, UndoStarted))
    state, entries = go_on([e for e in ran.entries if e.seq <= at], spec, StopRequested("interrupted"))
    assert (state.status, state.reason) == ("paused", "interrupted")
    state, entries = go_on(entries, spec)
    assert undone(entries) == ["b", "a"]


# In doubt


def test_on_doubt_rollback_undoes_the_attempt_and_then_it_counts_as_failed() -> None:
    spec = plan(task("a"), task("b", "a", on_doubt="rollback"), on_failure="stop")
    state, entries = go_on(cut(rehearse(spec), "b"), spec)
    assert undone(entries) == ["b"]
    assert (state.tasks[1].status, state.tasks[1].failure) == ("failed", "doubt")
    assert "is undone" in state.tasks[1].detail
    assert state.tasks[0].status == "completed"
    assert state.status == "failed"


def test_a_doubt_whose_undo_fails_asks() -> None:
    spec = plan(task("b", on_doubt="rollback"))
    state, _ = go_on(cut(rehearse(spec), "b"), spec, outcomes={"undo:b": BAD})
    assert (state.status, state.tasks[0].status, state.tasks[0].reason) == ("blocked", "in_doubt", "ask")


def test_where_nobody_is_there_a_doubt_is_undone_and_without_an_undo_it_waits() -> None:
    spec = plan(task("b"), {"id": "bare", "run": "x", "needs": ["b"]})
    state, entries = go_on(cut(rehearse(spec), "b"), spec)
    assert state.status == "blocked"
    state, entries = go_on(cut(rehearse(spec), "b"), spec, LeftAlone())
    assert (state.status, state.tasks[0].failure) == ("failed", "doubt")
    assert undone(entries) == ["b"]
    state, _ = go_on(cut(rehearse(spec), "bare"), spec, LeftAlone())
    assert (state.status, state.tasks[1].reason) == ("blocked", "ask")


def test_a_person_may_settle_a_doubt_by_undoing() -> None:
    spec = plan(task("b"))
    waiting, entries = go_on(cut(rehearse(spec), "b"), spec)
    event = undoing(waiting, 0, "ada")
    assert event is not None
    state, entries = go_on(entries, spec, event)
    assert (state.status, state.tasks[0].failure, undone(entries)) == ("failed", "doubt", ["b"])


def test_doubts_of_several_tasks_are_undone_one_after_the_other() -> None:
    spec = plan(*(task(name, on_doubt="rollback") for name in "abc"), on_failure="continue")
    ran = rehearse(spec)
    before = [e for e in ran.entries if not isinstance(e.event, AttemptEnded)][:4]
    state, entries = go_on(before, spec)
    assert sorted(undone(entries)) == ["a", "b", "c"]
    assert {found.failure for found in state.tasks} == {"doubt"}


# Asked for


def test_a_completed_run_is_rolled_back_and_ends_as_cancelled() -> None:
    spec = plan(task("a"), task("b", "a"))
    ran = rehearse(spec)
    event = started(ran.state, RollbackStarted("person", (), (), by="ada"), outstanding(ran.state))
    state, entries = go_on(ran, spec, event)
    assert undone(entries) == ["b", "a"]
    assert (state.status, state.reason) == ("cancelled", "rolled_back")
    assert not outstanding(state), "nothing is owed twice"


def test_a_run_that_waits_is_rolled_back_and_what_was_open_is_cancelled() -> None:
    end = {"id": "end", "run": "x"}
    spec = plan(task("a"), {"id": "ok", "gate": "approval", "needs": ["a"]}, task("c", "ok"), **{"finally": [end]})
    ran = rehearse(spec)
    assert ran.state.status == "blocked"
    event = started(ran.state, RollbackStarted("person", (), (), by="ada"), outstanding(ran.state))
    state, _entries = go_on(ran, spec, event)
    statuses = {spec.id: found.status for spec, found in zip(state.specs, state.tasks)}
    assert statuses == {"a": "rolled_back", "ok": "cancelled", "c": "cancelled", "end": "completed"}


def test_what_is_in_doubt_is_undone_as_well_when_a_person_rolls_back() -> None:
    spec = plan(task("a"), task("b", "a"))
    waiting, entries = go_on(cut(rehearse(spec), "b"), spec)
    event = started(waiting, RollbackStarted("person", (), (), by="ada"), outstanding(waiting))
    state, entries = go_on(entries, spec, event)
    assert undone(entries) == ["b", "a"]
    assert [found.status for found in state.tasks] == ["rolled_back", "rolled_back"]


# Files


def test_files_are_saved_once_a_visit_before_the_first_attempt_and_put_back_last() -> None:
    spec = plan(
        task("a", backup=["out/**"], retry={"attempts": 2, "delay": "1s"}), {"id": "bad", "run": "x", "needs": ["a"]}
    )
    ran = rehearse(spec, {"a": [BAD, GOOD], "bad": [BAD]})
    saved = [e.seq for e in ran.entries if isinstance(e.event, BackupMade)]
    assert len(saved) == 1
    assert saved[0] < next(e.seq for e in ran.entries if isinstance(e.event, AttemptStarted))
    kinds = [e.event.kind for e in ran.entries if isinstance(e.event, UndoStarted)]
    assert kinds == ["action", "files"]
    assert ran.statuses()["a"] == "rolled_back"


def test_a_task_whose_files_cannot_be_saved_does_not_start() -> None:
    spec = plan(task("a", backup=["."]))
    ran = rehearse(spec)
    assert (ran.statuses(), ran.state.tasks[0].failure) == ({"a": "failed"}, "policy")
    assert "the whole directory of the run" in ran.state.tasks[0].detail
    assert ran.order == []


def test_a_task_keeps_why_it_failed_beside_the_failure_of_what_undoes_it() -> None:
    acts = task("a", outputs={"v": "string"}, rollback={"run": "undo {{ tasks.a.outputs.v }}"})
    ran = rehearse(plan(acts), {"a": [BAD]})
    found = ran.state.tasks[0]
    assert found.reason == "rollback_failed"
    assert found.detail.startswith("exit code 1; what undoes it failed as well: ")
    assert "`v`" in found.detail
