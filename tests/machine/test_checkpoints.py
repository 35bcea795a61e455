"""Checkpoints that hold files, on a virtual clock: when they are asked for, and what waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from simulator.rehearsal import TRAITS, rehearse
from simulator.runs import PLACE, Disk, Nobody
from workbench import plan

from planrunner.engine.effects import TakeCheckpoint
from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.checkpoints import positions
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointAsked,
    CheckpointTaken,
    Entry,
    FrameOpened,
    GateVoted,
    Outcome,
    RunForked,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskSettled,
    TasksReset,
)
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove
from planrunner.plan.model import Plan
from planrunner.records import astuple

if TYPE_CHECKING:
    from planrunner.machine.events import Event

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
GOOD = Outcome(exit_code=0, duration=1.0)
RUN = "20231114-2213-000000"


def task(name: str, *needs: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", "needs": list(needs), **keys}


def loop(name: str = "polish", *, until: str = "", **keys: Any) -> dict[str, Any]:
    return {"id": name, "loop": {"tasks": [task("draft")], **({"until": until} if until else {}), **keys}}


def told(entries: Sequence[Entry]) -> list[str]:
    """What happened to tasks, in words."""
    words = []
    for entry in entries:
        event = entry.event
        if isinstance(event, AttemptStarted):
            words.append(f"start {event.task}")
        elif isinstance(event, CheckpointAsked):
            words.append(f"ask {event.task}" + (f"#{event.round}" if event.round else ""))
        elif isinstance(event, CheckpointTaken):
            words.append(f"took {event.task}" + (f"#{event.round}" if event.round else ""))
        elif isinstance(event, FrameOpened):
            words.append(f"open {event.task}#{event.number}")
        elif isinstance(event, TaskSettled):
            words.append(f"{event.status} {event.task}")
    return words


class Slow(SimulatedEffects):
    """Checkpoints that take as long as they are told to, and hold what they are told to."""

    __slots__ = ("answer", "takes")

    def __init__(self, takes: float, start: float, answer: CheckpointTaken | None = None) -> None:
        super().__init__(Script(lambda call: GOOD, lambda names: {}), start)
        self.takes = takes
        self.answer = answer

    def start(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, TakeCheckpoint):
                answer = CheckpointTaken(*astuple(effect.asked), files=f"{self._count:064x}")
                self._later(self.takes, answer)
            else:
                super().start([effect])


def driven(spec: Plan, effects: SimulatedEffects, entries: Sequence[Entry] = (), *events: Event) -> tuple[State, Disk]:
    disk = Disk()
    disk.entries = list(entries)
    state = fold(spec, RUN, entries)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(entries))
    first = [RunResumed(2)] if entries else [RunStarted("sha256:test", {}, 7, traits=TRAITS)]
    driver.record(*first, *events)
    driver.run()
    return state, disk


def test_what_needs_the_task_waits_until_its_files_are_kept() -> None:
    ran = rehearse(plan(task("a", checkpoint=True), task("b", "a")))
    assert told(ran.entries) == ["start a", "ask a", "took a", "completed a", "start b", "completed b"]


def test_an_attempt_that_failed_or_did_not_meet_its_criteria_is_no_checkpoint() -> None:
    spec = plan(task("a", checkpoint=True, expect=["exit_code == 0"], retry={"attempts": 2, "delay": "1s"}))
    ran = rehearse(spec, {"a": [BAD, GOOD]})
    assert told(ran.entries) == ["start a", "start a", "ask a", "took a", "completed a"]
    asked = next(entry.event for entry in ran.entries if isinstance(entry.event, CheckpointAsked))
    assert asked == CheckpointAsked("a", 1, 2)
    assert told(rehearse(spec, {"a": [BAD]}).entries) == ["start a", "start a", "failed a"]


def test_defaults_ask_for_all_tasks_and_a_task_can_do_without() -> None:
    spec = plan(
        task("a"), task("b", checkpoint=False), task("c", checkpoint={"paths": "out"}), defaults={"checkpoint": True}
    )
    assert [each.checkpoint for each in spec.tasks] == [(), None, ("out",)]


def test_every_third_round_of_at_most_seven_is_kept_before_the_next_one_begins() -> None:
    ran = rehearse(plan(loop(max=7, checkpoint=3)))
    found = told(ran.entries)
    assert [word for word in found if word.startswith("took")] == ["took polish#3", "took polish#6"]
    assert found.index("took polish#3") == found.index("open polish#4") - 1
    assert ran.statuses()["polish"] == "completed"


def test_a_loop_that_ends_with_a_round_to_keep_keeps_it_before_it_completes() -> None:
    found = told(rehearse(plan(loop(max=15, checkpoint=5, until="loop.round >= 10"))).entries)
    assert [word for word in found if word.startswith("took")] == ["took polish#5", "took polish#10"]
    assert found[-2:] == ["took polish#10", "completed polish"]


def test_a_round_that_failed_is_not_kept() -> None:
    ran = rehearse(plan(loop(max=3, checkpoint=1)), {"polish#2/draft": [BAD]})
    assert [word for word in told(ran.entries) if word.startswith("took")] == ["took polish#1"]
    assert ran.statuses()["polish"] == "failed"


def test_a_subplan_and_a_fan_out_are_kept_once_as_a_whole() -> None:
    items = {"id": "fan", "foreach": [1, 2], "run": "work", "checkpoint": True}
    held = {"id": "sub", "subplan": [task("x"), task("y", "x")], "needs": ["fan"], "checkpoint": True}
    found = told(rehearse(plan(items, held)).entries)
    assert [word for word in found if word.startswith("took")] == ["took fan", "took sub"]
    assert (
        found.index("completed fan[1]")
        < found.index("took fan")
        < found.index("start sub/x" if "start sub/x" in found else "open sub#1")
    )


def test_a_gate_keeps_the_files_once_people_have_decided() -> None:
    spec = plan({"id": "ok", "gate": "approval", "ask": "go?", "checkpoint": True}, task("b", "ok"))
    first, disk = driven(spec, Slow(0.0, 100.0))
    gate = first.tasks[0].gate
    assert first.status == "blocked" and gate is not None
    vote = GateVoted("ok", 1, "approve", "ada", gate.shown)
    state, disk = driven(spec, Slow(0.0, 200.0), disk.entries, vote)
    assert state.status == "completed"
    assert told(disk.entries)[-5:] == ["ask ok", "took ok", "completed ok", "start b", "completed b"]


def test_what_was_asked_for_and_not_taken_is_asked_for_again() -> None:
    spec = plan(task("a", checkpoint=True), task("b", "a"))
    ran = rehearse(spec)
    last = next(entry.seq for entry in ran.entries if isinstance(entry.event, CheckpointAsked))
    state, disk = driven(spec, Slow(0.0, ran.entries[last - 1].at + 5), ran.entries[:last])
    assert told(disk.entries) == ["start a", "ask a", "ask a", "took a", "completed a", "start b", "completed b"]
    assert state.status == "completed"


@pytest.mark.parametrize("reason", ["pause", "interrupted", "cancelled"])
def test_a_stop_waits_for_the_checkpoint_that_is_under_way(reason: str) -> None:
    spec = plan(task("a", checkpoint=True), task("b", "a"))
    effects = Slow(5.0, 100.0)
    effects._later(3.0, StopRequested(reason))  # type: ignore[arg-type]
    state, disk = driven(spec, effects)
    found = [word for word in told(disk.entries) if word.endswith(" a")]
    assert found == ["start a", "ask a", "took a", "completed a"]
    assert state.tasks[1].status == ("cancelled" if reason == "cancelled" else "pending")
    assert state.status == ("cancelled" if reason == "cancelled" else "paused")


def test_a_loop_whose_time_is_over_while_a_round_is_kept_ends() -> None:
    spec = plan(loop(max=9, checkpoint=1) | {"timeout": "4s"})
    state, disk = driven(spec, Slow(60.0, 100.0))
    assert (state.status, state.tasks[0].failure) == ("failed", "timeout")
    assert "open polish#2" not in told(disk.entries)


def test_the_time_limit_of_a_loop_says_nothing_once_its_rounds_are_over() -> None:
    spec = plan(loop(max=2) | {"timeout": "4s", "checkpoint": True})
    state, _ = driven(spec, Slow(60.0, 100.0))
    assert state.status == "completed"


def test_each_checkpoint_is_compared_with_the_newest_one_of_the_same_patterns() -> None:
    spec = plan(
        task("a", checkpoint=True), task("b", "a", checkpoint={"paths": ["out"]}), task("c", "b", checkpoint=True)
    )
    _, disk = driven(spec, Slow(0.0, 100.0))
    taken = [entry.event for entry in disk.entries if isinstance(entry.event, CheckpointTaken)]
    assert [(one.task, one.since) for one in taken] == [("a", ""), ("b", ""), ("c", taken[0].files)]


def test_a_task_that_begins_anew_keeps_its_files_anew() -> None:
    back = {"rework": "a", "max": 1}
    spec = plan(task("a", checkpoint=True), task("check", "a", on_failure=back))
    ran = rehearse(spec, {"check": [BAD, GOOD]})
    asked = [entry.event for entry in ran.entries if isinstance(entry.event, CheckpointAsked)]
    assert asked == [CheckpointAsked("a", 1, 1), CheckpointAsked("a", 2, 2)]


def test_an_answer_to_an_earlier_visit_does_not_stand_for_the_next_one() -> None:
    spec = plan(task("a", checkpoint=True))
    ran = rehearse(spec)
    asked = next(entry.seq for entry in ran.entries if isinstance(entry.event, CheckpointAsked))
    since: list[Event] = [
        TasksReset(("a",), "rerun"),
        AttemptStarted("a", 2, "key"),
        AttemptEnded("a", 2, GOOD),
        CheckpointAsked("a", 2, 2),
        CheckpointTaken("a", 1, 1),
    ]
    entries = [*ran.entries[:asked], *(Entry(asked + at, 1e10, event) for at, event in enumerate(since, 1))]
    state = fold(spec, RUN, entries)
    assert (state.asked, state.tasks[0].status) == ({0}, "running")
    evolve(state, CheckpointTaken("a", 2, 2), 1e10)
    assert (state.asked, list(state.candidates)) == (set(), [0])


def test_an_answer_that_nobody_asked_for_cannot_follow() -> None:
    spec = plan(task("a", checkpoint=True))
    asked = next(e.seq for e in rehearse(spec).entries if isinstance(e.event, CheckpointAsked))
    state = fold(spec, RUN, rehearse(spec).entries[: asked - 1])
    with pytest.raises(IllegalMove, match="without an intent"):
        evolve(state, CheckpointTaken("a", 1, 1), 1e10)


def test_places_to_go_on_from_are_tasks_and_kept_rounds_and_know_their_files() -> None:
    _, disk = driven(
        plan(task("a"), loop(max=4, checkpoint=2) | {"needs": ["a"]}, task("b", "polish")), Slow(0.0, 100.0)
    )
    found = {place.task: place for place in positions(disk.entries)}
    assert found["a"].taken == 0 and found["polish#1/draft"].taken == 0
    for name in ("polish#2", "polish#4"):
        event = disk.entries[found[name].taken - 1].event
        assert isinstance(event, CheckpointTaken) and f"{event.task}#{event.round}" == name
    assert not found["polish#4"].ended


def test_a_place_that_the_run_ended_with_is_listed_with_files_and_without() -> None:
    found = positions(rehearse(plan(task("a"), task("b", "a", checkpoint=True))).entries)
    assert [(place.task, place.ended) for place in found] == [("a", False), ("b", True)]
    bare = positions(rehearse(plan(task("a"), task("b", "a"))).entries)
    assert [(place.task, place.ended) for place in bare] == [("a", False), ("b", True)]


def test_a_fork_in_the_middle_of_a_checkpoint_asks_for_it_again() -> None:
    spec = plan(task("a", checkpoint=True), task("b", "a"))
    ran = rehearse(spec)
    last = next(entry.seq for entry in ran.entries if isinstance(entry.event, CheckpointAsked))
    at = ran.entries[last - 1].at
    forked = [*ran.entries[:last], Entry(last + 1, at, RunForked("other", RUN, last))]
    state, disk = driven(spec, Slow(0.0, at + 5), forked)
    assert state.status == "completed"
    assert [word for word in told(disk.entries) if word.endswith(" a")][-3:] == ["ask a", "took a", "completed a"]


def test_checkpoints_take_no_slot() -> None:
    spec = plan(task("a", checkpoint=True), task("b"), max_parallel=1)
    _, disk = driven(spec, Slow(60.0, 100.0))
    found = told(disk.entries)
    assert found.index("start b") < found.index("took a")
    assert sum(isinstance(entry.event, AttemptEnded) for entry in disk.entries) == 2
