"""Executors: what every one does with the calls that it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from planrunner.capabilities.binding import bind, invoke
from planrunner.capabilities.contract import Call, Pause, capability
from planrunner.engine.effects import Cancel
from planrunner.machine.events import AttemptEnded, Outcome, StopRequested


class PoolExecutor:
    """An executor of ten lines: calls functions in a pool of threads, as one that sends them to other machines would."""

    def __init__(self, resolve: Callable[[str], Callable[..., Any]]) -> None:
        self._resolve, self._pool = resolve, ThreadPoolExecutor()

    def submit(self, call: Call, sink: Callable[[Outcome], None]) -> Future[Outcome]:
        handle: Future[Outcome] = Future()
        handle.add_done_callback(lambda done: sink(done.result()))
        self._pool.submit(self._make, call, handle)
        return handle

    def cancel(self, handle: Future[Outcome], outcome: Outcome, forced: bool = False) -> None:
        with suppress(Exception):  # it is done
            handle.set_result(outcome)

    def _make(self, call: Call, handle: Future[Outcome]) -> None:
        outcome = invoke(bind(call.task.uses, self._resolve(call.task.uses)), call.inputs, None)
        self.cancel(handle, outcome)


@pytest.fixture
def held(bench) -> Iterator[threading.Event]:
    """``wait`` is a capability that waits until this is set."""
    held = threading.Event()
    bench.functions["wait"] = lambda: held.wait(240) and {}
    yield held
    held.set()


@pytest.fixture(params=["local", "pool"])
def effects(request, bench, held):
    """Live effects whose calls are made by an executor."""
    return bench.reopen(executor=None if request.param == "local" else PoolExecutor(bench.resolve))


def ends(bench, effects, count: int = 1) -> list[AttemptEnded]:
    found: list[AttemptEnded] = []
    while len(found) < count:
        events = effects.wait(None)
        assert events, "nothing is on its way any more"
        found += [event for event in events if isinstance(event, AttemptEnded)]
    assert effects.wait(effects.now()) == [], "an outcome comes once"
    return found


def test_the_outcome_of_a_call_comes_once(bench, effects) -> None:
    bench.functions["give"] = lambda value: {"value": value}
    for number in range(20):
        bench.start(f"t{number}", uses="give", inputs={"value": number})
    outcomes = {event.task: event.outcome.outputs for event in ends(bench, effects, 20)}
    assert outcomes == {f"t{number}": {"value": number} for number in range(20)}


@pytest.mark.parametrize("uses", ["fail", "broken"])
def test_a_failure_is_an_outcome(bench, effects, uses: str) -> None:
    def broken() -> None:
        raise ValueError("it broke")

    bench.functions["broken"] = broken
    bench.start(uses=uses)
    (end,) = ends(bench, effects)
    assert end.outcome.failure == "logic"


def test_a_call_that_is_cancelled_ends_as_it_is_told(bench, effects) -> None:
    bench.start("a", uses="wait")
    bench.start("b", uses="wait")
    effects.start([Cancel("a", 1, "no use any more")])
    (end,) = ends(bench, effects)
    assert (end.task, end.outcome.failure, end.outcome.message) == ("a", "cancelled", "stopped: no use any more")


def test_a_call_that_is_done_keeps_its_outcome(bench, effects) -> None:
    bench.functions["give"] = lambda: {"value": 1}
    bench.start("a", uses="give")
    (end,) = ends(bench, effects)
    effects.start([Cancel("a", 1, "too late")])
    assert end.outcome.outputs == {"value": 1}
    assert effects.wait(effects.now()) == []


def test_what_is_under_way_when_all_stops_is_interrupted(bench, effects) -> None:
    bench.start("a", uses="wait")
    bench.start("b", uses="wait")
    effects.stop(forced=True)
    assert {(end.task, end.outcome.failure) for end in ends(bench, effects, 2)} == {
        ("a", "interrupted"),
        ("b", "interrupted"),
    }


class TestTheLocalOne:
    """Calls that are made inline, in a thread and in a process end in one way."""

    @pytest.fixture(params=["inline", "pause", "thread", "process"])
    def task(self, request, bench) -> dict[str, Any]:
        bench.functions["inline"] = capability("x.inline", effect="pure", instant=True)(lambda: Outcome())
        bench.functions["pause"] = lambda: Pause(0.001, Outcome())
        bench.functions["thread"] = lambda: Outcome()
        return {"script": "true"} if request.param == "process" else {"uses": request.param}

    def test_ends_well(self, bench, task) -> None:
        bench.start(**task)
        (end,) = ends(bench, bench.effects)
        assert end.outcome.failure == ""


def test_an_executor_without_room_stops_the_run(bench) -> None:
    class Full(PoolExecutor):
        def submit(self, call: Call, sink: Callable[[Outcome], None]) -> Future[Outcome]:
            sink(Outcome("unstarted", "the cluster is full"))
            return Future()

    effects = bench.reopen(executor=Full(bench.resolve))
    bench.start()
    ended, stop = effects.wait(None)
    assert ended == AttemptEnded("task", 1, Outcome("unstarted", "the cluster is full"))
    assert stop == StopRequested("storage", comment="the cluster is full")
