"""Members of families: one item of a fan-out is needed, waited for and read by its own name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import RUN_ID, World, simulate
from workbench import loaded, working_plan

from planrunner.engine.replay import replay
from planrunner.machine.events import Outcome, TaskSettled
from planrunner.machine.explain import why

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
SLOW = Outcome(exit_code=0, duration=60.0)
GOES_ON: dict[str, Any] = {"on_failure": "continue"}
DIVES: dict[str, Any] = {"id": "dive-*", "foreach": [1, 2]}

plan = partial(working_plan, **GOES_ON)


def run(
    *tasks: dict[str, Any], bad: tuple[str, ...] = (), slow: tuple[str, ...] = (), dives: dict[str, Any] = DIVES
) -> Rehearsal:
    outcomes = {**{task: [BAD] for task in bad}, **{task: [SLOW] for task in slow}}
    return rehearse(plan(dives, *tasks), outcomes)


def settled(ran: Rehearsal) -> list[str]:
    return [entry.event.task for entry in ran.entries if isinstance(entry.event, TaskSettled)]


def detail(ran: Rehearsal, task: str) -> str:
    return ran.state.tasks[ran.state.index[task]].detail


def test_a_member_that_failed_keeps_only_those_that_need_it_from_starting() -> None:
    ran = run({"id": "one", "needs": ["dive-1"]}, {"id": "two", "needs": ["dive-2"]}, bad=("dive-2",))
    assert (ran.statuses()["one"], ran.statuses()["two"]) == ("completed", "omitted")
    assert detail(ran, "two") == "needs `dive-2`, which failed"


def test_a_task_starts_when_its_member_is_done_before_the_family_is() -> None:
    order = settled(run({"id": "one", "needs": ["dive-1"]}, slow=("dive-2",)))
    assert order == ["dive-1", "one", "dive-2", "dive-*"]


@rows(
    ("join", "bad", "status"),
    [
        ({"at_least": 2}, ("dive-3",), "completed"),
        ({"at_least": 2}, ("dive-2", "dive-3"), "omitted"),
        ("any", ("dive-2", "dive-3"), "completed"),
        ("all_done", ("dive-1", "dive-2", "dive-3"), "completed"),
        ("one_failed", ("dive-3",), "completed"),
        ("none_failed", ("dive-3",), "omitted"),
    ],
)
def test_a_join_counts_members(join: Any, bad: tuple[str, ...], status: str) -> None:
    dives = {"id": "dive-*", "foreach": [1, 2, 3]}
    some = {"id": "some", "needs": ["dive-1", "dive-2", "dive-3"], "join": join}
    assert run(some, bad=bad, dives=dives).statuses()["some"] == status


@pytest.mark.parametrize(
    ("needs", "status"),
    [
        ("dive-1.ok", "completed"),
        ("dive-2.failed", "completed"),
        ("dive-2.ok", "omitted"),
        ("dive-1.ok and dive-2.failed", "completed"),
    ],
)
def test_an_expression_over_results_reads_members(needs: str, status: str) -> None:
    assert run({"id": "one", "needs": needs}, bad=("dive-2",)).statuses()["one"] == status


def test_an_expression_over_a_member_is_decided_when_the_member_is() -> None:
    assert settled(run({"id": "one", "needs": "dive-1.ok"}, slow=("dive-2",)))[:2] == ["dive-1", "one"]


def test_what_a_member_gave_is_read_by_its_name() -> None:
    one = {
        "id": "one",
        "needs": ["dive-2"],
        "when": "tasks.dive-2.failed and tasks['dive-2'].exit_code == 1",
        "join": "all_done",
    }
    assert run(one, bad=("dive-2",)).statuses()["one"] == "completed"


def test_a_member_that_no_item_makes_did_not_run() -> None:
    dives = {"id": "dive-*", "foreach": "params.n"}
    made = working_plan(dives, {"id": "one", "needs": ["dive-3"]}, params={"n": {"type": "list", "default": [1, 2]}})
    ran = rehearse(made, params={"n": [1, 2]})
    assert (ran.statuses()["one"], detail(ran, "one")) == (
        "omitted",
        "needs `dive-3`, which does not exist: `dive-*` has 2 items",
    )
    assert why(ran.state, "one")[-1] == "  `dive-3` does not exist: `dive-*` has 2 items"


def test_an_expression_over_a_member_that_no_item_makes_has_no_value() -> None:
    dives = {"id": "dive-*", "foreach": "params.n"}
    made = working_plan(dives, {"id": "one", "needs": "dive-3.ok"}, params={"n": {"type": "list", "default": [1]}})
    ran = rehearse(made, params={"n": [1]})
    assert detail(ran, "one") == "`dive-3.ok` has no value: `dive-3` does not exist: `dive-*` has 1 item"


def test_the_members_of_a_family_that_did_not_start_did_not_run_either() -> None:
    dives = {**DIVES, "when": "false"}
    ran = run({"id": "one", "needs": ["dive-1"]}, {"id": "two", "needs": "dive-1.skipped"}, dives=dives)
    assert (ran.statuses()["one"], ran.statuses()["two"]) == ("omitted", "completed")


def test_a_member_of_a_family_that_may_fail_may_fail() -> None:
    dives = {**DIVES, "allow_failure": True}
    ran = run({"id": "one", "needs": ["dive-2"]}, bad=("dive-2",), dives=dives)
    assert ran.statuses()["one"] == "completed"


@pytest.mark.parametrize(("bad", "status"), [(("dive-2",), "completed"), (("dive-2", "mend"), "omitted")])
def test_who_needs_a_failed_member_waits_for_what_stands_in_for_the_family(bad: tuple[str, ...], status: str) -> None:
    dives = {**DIVES, "on_failure": {"to": "mend", "recovers": True}}
    ran = run({"id": "mend"}, {"id": "one", "needs": ["dive-2"]}, bad=bad, dives=dives)
    assert ran.statuses()["one"] == status, detail(ran, "one")


def test_a_whole_family_beside_one_of_its_members_is_needed_whole() -> None:
    ran = run({"id": "one", "needs": ["dive-1", "dive-*"]}, bad=("dive-2",))
    assert detail(ran, "one") == "needs `dive-*`, which failed"


def test_members_in_a_loop_are_those_of_the_round() -> None:
    one = {"id": "one", "needs": ["dive-1"], "run": "one"}
    tasks = [{**DIVES, "run": "dive"}, one]
    order = settled(
        rehearse(
            plan({"id": "l", "loop": {"max": 2, "until": "loop.round == 2", "tasks": tasks}}), {"l#2/dive-2": [SLOW]}
        )
    )
    assert order.index("l#2/dive-1") < order.index("l#2/one") < order.index("l#2/dive-2")


def test_after_the_family_is_reset_a_member_is_that_of_the_new_visit() -> None:
    back = {"id": "back", "needs": ["dive-*"], "on_failure": {"rework": "dive-*", "max": 1}}
    one = {"id": "one", "needs": ["dive-1"]}
    ran = rehearse(plan(DIVES, back, one), {"back": [BAD, Outcome(exit_code=0)], "dive-2@2": [SLOW]})
    order = settled(ran)
    again = order[order.index("dive-1@2") :]
    assert again.index("one") < again.index("dive-2@2")


def test_a_run_that_is_killed_at_any_entry_goes_on_alike() -> None:
    some = {"id": "some", "needs": ["dive-1", "dive-2"], "join": "any"}
    two = {"id": "two", "needs": "dive-2.failed"}
    flag = {"flag": {"type": "bool", "default": True}}
    made = plan(DIVES, {"id": "one", "needs": ["dive-1"]}, some, two, params=flag)
    world = World(made, TRAITS, 3)
    whole = simulate(world)
    for at in range(1, len(whole.entries)):
        died = simulate(world, {at: True})
        replayed = replay(made, RUN_ID, died.entries)
        assert replayed.difference is None


def messages(*tasks: dict[str, Any]) -> list[str]:
    return [finding.message for finding in loaded(*tasks).findings if finding.severity == "error"]


@pytest.mark.parametrize(
    "way", [{"on_failure": "dive-1"}, {"on_success": {"to": "dive-2"}}, {"next": [{"to": "dive-1"}]}]
)
def test_an_edge_to_a_single_member_is_refused(way: dict[str, Any]) -> None:
    found = messages({**DIVES, "run": "x"}, {"id": "six", "run": "x", **way})
    assert len(found) == 1 and "one task of the family `dive-*`: an edge leads to all" in found[0]
