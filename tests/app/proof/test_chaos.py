"""``planrunner chaos``: kills at every journal write, the comparison, and that a broken promise would be seen."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from planrunner.app.proof.chaos import ChaosRequest, chaos, chaos_object, imagined_stage, real_differences
from planrunner.app.proof.lives import Acted, Broken, Disk, Lived, Mishap, live
from planrunner.app.proof.promises import check, check_settled_once, check_slots, check_unsafe, differences
from planrunner.app.proof.test import runnable
from planrunner.app.proof.world import World, known_capabilities, script
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Outcome, TaskSettled

if TYPE_CHECKING:
    from planrunner.machine.events import Event

Write = Callable[[str, str], str]
Call = Callable[..., tuple[int, str, str]]
Data = Callable[..., tuple[int, Any]]

PLAN = """
plan: p
max_parallel: 2
defaults: {timeout: 1h}
tasks:
  - id: a
    run: one
    outputs: {n: int}
  - id: b
    needs: [a]
    foreach: "[1, 2, 3]"
    run: two {{ item }}
    effect: idempotent
  - id: ok
    needs: [b]
    gate: approval
  - id: c
    needs: [ok]
    run: three {{ tasks.a.outputs.n }}
    on_failure: d
  - id: d
    run: four
outputs:
  n: "{{ tasks.a.outputs.n }}"
"""


def test_every_write_is_killed_before_and_after_and_the_end_is_the_same(write: Write, data: Data) -> None:
    code, found = data("chaos", write("p.yaml", PLAN), "--pairs", "5")
    assert code == 0
    assert found["held"]
    assert found["runs"] == 2 * found["writes"] + 5
    assert sum(row["runs"] for row in found["table"]) == found["runs"]
    assert found["doubts"] > 0
    assert found["status"] == "completed"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_seed_makes_attempts_fail_and_the_end_is_still_the_same(seed: int, write: Write) -> None:
    request = ChaosRequest(write("p.yaml", PLAN), seed=seed)
    found = chaos(request)
    assert all(not trial.wrong for trial in found.trials)
    assert chaos(request).calm.entries == found.calm.entries


def test_kills_can_be_sampled_and_time_is_bounded(write: Write, data: Data) -> None:
    name = write("p.yaml", PLAN)
    _, found = data("chaos", name, "--kills", "2", "--pairs", "0")
    assert found["runs"] == 4
    _, short = data("chaos", name, "--time", "0s")
    assert short["runs"] + short["left_out"] == 2 * short["writes"] + 24
    assert short["left_out"] > 0


def test_one_run_can_be_repeated(write: Write, data: Data) -> None:
    name = write("p.yaml", PLAN)
    assert data("chaos", name, "--only-write", "3", "--after")[1]["table"][0]["what"].startswith("after ")
    assert data("chaos", name, "--only-write", "3")[1]["table"][0]["what"].startswith("before ")
    _, pair = data("chaos", name, "--only-write", "2:after,3:before")
    assert pair["table"][0]["what"] == "second kill during recovery"
    assert pair["runs"] == 1


def test_wrong_calls_are_code_two(write: Write, call: Call) -> None:
    name = write("p.yaml", PLAN)
    for words in (
        ["--kills", "x"],
        ["--only-write", "a"],
        ["--only-write", "1:never"],
        ["--time", "long"],
        ["-p", "x=1"],
    ):
        assert call("chaos", name, *words)[0] == 2, words


def test_the_text_shows_a_table_and_says_how_doubts_were_settled(write: Write, call: Call) -> None:
    code, out, _ = call("chaos", write("p.yaml", PLAN))
    assert code == 0
    assert "KILLED" in out
    assert "of unsafe tasks, settled by what the simulation knows" in out
    assert "the same end every time, nothing lost, nothing unsafe done twice" in out


def test_an_end_that_differs_is_shown_with_the_call_that_repeats_it(
    write: Write, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world whose answers change from life to life stands for an engine that forgets."""
    name = write("p.yaml", PLAN)
    answers = iter(range(10_000))
    original = imagined_stage

    def fickle(*given: Any) -> Any:
        stage = original(*given)
        return stage._replace(
            script=stage.script._replace(
                outcome=lambda asked: stage.script.outcome(asked)._replace(outputs={"n": next(answers)})
            )
        )

    monkeypatch.setattr("planrunner.app.proof.chaos.imagined_stage", fickle)
    code, out, _ = call("chaos", name)
    assert code == 1
    assert "a kill changed how the run ends" in out
    assert f"again: planrunner chaos {name} --only-write 1 --before" in out


def entry(seq: int, event: Event) -> Entry:
    return Entry(seq, 0.0, event)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([TaskSettled("a", "completed"), TaskSettled("a", "failed")], "settled twice"),
        ([TaskSettled("a", "completed"), AttemptStarted("a", 1, "k")], "started after it was settled"),
        ([AttemptEnded("a", 1, Outcome()), AttemptEnded("a", 1, Outcome())], "ended twice"),
    ],
)
def test_a_journal_that_breaks_a_promise_is_noticed(events: Sequence[Event], message: str) -> None:
    with pytest.raises(Broken, match=message):
        check_settled_once([entry(seq, event) for seq, event in enumerate(events, 1)])


def test_an_unsafe_attempt_that_acts_twice_is_noticed() -> None:
    started = [entry(1, AttemptStarted("a", 1, "k", effect="unsafe"))]
    check_unsafe(started, [Acted(1, "a", 1), Acted(1, "a", 2)])
    with pytest.raises(Broken, match="acted in life 1 and in 2"):
        check_unsafe(started, [Acted(1, "a", 1), Acted(2, "a", 1)])


def test_too_many_at_once_are_noticed(write: Write) -> None:
    lived = calm(write)
    starts = [entry(seq, AttemptStarted(task, 9, "k")) for seq, task in enumerate(("a", "c", "d"), 1)]
    with pytest.raises(Broken, match="3 tasks run at entry 3, 2 may"):
        check_slots(lived.state, starts)


def test_a_gap_in_the_journal_is_noticed() -> None:
    with pytest.raises(Broken, match="entry 3 follows 0"):
        Disk().append([entry(3, TaskSettled("a", "completed"))])


def calm(write: Write) -> Lived:
    plan = runnable(write("p.yaml", PLAN))
    return live(imagined_stage(plan, ChaosRequest("p.yaml")))


def test_a_state_that_is_not_the_fold_of_its_journal_is_noticed(write: Write) -> None:
    lived = calm(write)
    check(lived.state.plan, lived)
    lived.state.tasks[0].outputs = {"n": 8}
    with pytest.raises(Broken, match="fold"):
        check(lived.state.plan, lived)


def test_differences_name_the_task_and_both_ends(write: Write) -> None:
    one = calm(write).state
    plan = runnable("p.yaml")
    other = live(imagined_stage(plan, ChaosRequest("p.yaml"))).state
    assert differences(one, other) == []
    other.tasks[0].status = "failed"
    (said,) = differences(one, other)
    assert said.startswith("`a` is failed after 1 attempts")
    assert "instead of completed" in said


def test_a_mishap_kills_the_process_while_an_attempt_is_under_way(write: Write) -> None:
    plan = runnable(write("p.yaml", PLAN))
    lived = live(imagined_stage(plan, ChaosRequest("p.yaml")), None, [Mishap("a", 1, "crash")])
    assert lived.state.status == "completed"
    assert any(isinstance(e.event, TaskSettled) and e.event.status == "in_doubt" for e in lived.entries)
    assert sum(one.task == "a" for one in lived.acted) == 1


def test_an_attempt_in_doubt_that_ended_well_may_still_be_judged_by_a_person(write: Write) -> None:
    text = "plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m, expect: ['judge: it is friendly']}\n"
    plan = runnable(write("p.yaml", text))
    known = known_capabilities(plan)
    stage = imagined_stage(plan, ChaosRequest("p.yaml"))._replace(plan=plan, script=script(World(fields=known.fields)))
    for number, stored in itertools.product(range(1, 5), (True, False)):
        assert live(stage, {number: stored}).state.status == "completed"


def test_json_and_text_come_from_the_same_object(write: Write) -> None:
    request = ChaosRequest(write("p.yaml", PLAN))
    found = chaos_object(request, chaos(request))
    assert json.loads(json.dumps(found)) == found


@pytest.mark.slow
def test_the_real_process_is_killed_in_copies_and_the_project_stays_as_it_is(
    write: Write, data: Data, tmp_path: Path
) -> None:
    plan = """
plan: real
defaults: {timeout: 2m}
tasks:
  - {id: a, run: echo a >> made, effect: idempotent}
  - {id: b, needs: [a], run: test -s made}
"""
    code, found = data("chaos", write("p.yaml", plan), "--real", "--kills", "6")
    assert code == 0, found
    assert (found["runs"], found["real"], found["status"]) == (6, True, "completed")
    assert not (tmp_path / "made").exists()
    assert not any((tmp_path / ".planrunner").iterdir())


WATCHED = """
plan: p
on_failure: continue
defaults: {timeout: 2m}
tasks:
  - {id: w, run: one, watchdog: [{after: 500ms, do: fail}], retry: {attempts: 2, delay: 10ms}}
  - {id: c, run: two, watchdog: [{after: 400ms, do: cancel}]}
  - {id: t, run: three, timebox: 600ms, retry: {attempts: 2, delay: 10ms}}
"""


def test_where_all_goes_well_no_watchdog_and_no_timebox_ends_an_attempt(write: Write, data: Data) -> None:
    code, found = data("chaos", write("p.yaml", WATCHED))
    assert (code, found["status"]) == (0, "completed"), found["violation"]


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_kill_before_a_watchdog_ends_an_attempt_changes_nothing(write: Write, data: Data, seed: str) -> None:
    plan = WATCHED.replace("  - {id: t, run: three, timebox: 600ms, retry: {attempts: 2, delay: 10ms}}\n", "")
    code, found = data("chaos", write("p.yaml", plan), "--seed", seed)
    assert found["status"] == "failed"
    assert code == 0, found["violation"]


def test_a_write_that_the_run_does_not_have_is_refused(write: Write, call: Call) -> None:
    code, _, err = call("chaos", write("p.yaml", WATCHED), "--only-write", "9999")
    assert code == 2
    assert "there is no write 9999: the run has " in err


def test_a_real_run_whose_plan_gives_up_after_a_crash_is_not_compared() -> None:
    calm = {"status": "completed", "tasks": {"a": {"status": "completed", "reason": ""}}}
    given_up = {"status": "failed", "tasks": {"a": {"status": "rolled_back", "reason": "doubt"}}}
    failed = {"status": "failed", "tasks": {"a": {"status": "failed", "reason": "logic"}}}
    assert real_differences(calm, given_up) == []
    assert real_differences(calm, failed) == [
        "the run is failed instead of completed",
        "`a` is failed instead of completed",
    ]


def test_a_task_that_waits_for_a_slot_does_not_begin_as_what_holds_it_is_stopped(write: Write, data: Data) -> None:
    plan = """
plan: p
max_parallel: 1
on_failure: continue
defaults: {timeout: 2m}
tasks:
  - {id: a, run: one}
  - id: hold
    timeout: 1500ms
    loop: {max: 3, tasks: [{id: s, run: two}]}
"""
    code, found = data("chaos", write("p.yaml", plan))
    assert code == 0, found["violation"]
