"""Looks and questions beside the attempts, by the hundred: each has its turn, and threads are few."""

from __future__ import annotations

import threading
from typing import Any

from planrunner.capabilities.contract import Context, capability
from planrunner.engine import evidence
from planrunner.engine.effects import Examine, Probe
from planrunner.engine.live import LOOKS
from planrunner.machine.events import DoubtSettled, GateExamined


def _all(effects: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        events = effects.wait(None)
        assert events, f"{len(found)} of {count} are all that came"
        found += events
    return found


def test_many_gates_are_looked_at_by_few_threads_and_each_once(bench: Any, monkeypatch: Any) -> None:
    count = 10 * LOOKS
    threads: set[int] = set()
    examine = evidence.examine

    def counted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return examine(*arguments)

    monkeypatch.setattr(evidence, "examine", counted)
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread))[1])
    bench.effects.start([Examine(f"g{number}", 1, (), str(bench.folder)) for number in range(count)])
    events = _all(bench.effects, count)
    assert {event.task for event in events if isinstance(event, GateExamined)} == {f"g{n}" for n in range(count)}
    assert len(started) <= LOOKS
    assert threads <= {thread.ident for thread in started}


def test_questions_beyond_the_limit_wait_and_are_dropped_where_all_stops(bench: Any) -> None:
    count = 3 * LOOKS
    entered = threading.Semaphore(0)
    asked: list[str] = []

    def probe(context: Context) -> bool:
        asked.append(context.call.task.id)
        entered.release()
        while not context.cancelled():
            threading.Event().wait(0.01)
        return True

    bench.functions["slow.act"] = capability("slow.act", effect="checkable", probe=probe)(lambda: None)
    bench.effects.start([Probe(bench.call(f"t{number}", uses="slow.act")) for number in range(count)])
    for _ in range(LOOKS):
        assert entered.acquire(timeout=240)
    bench.effects.stop()
    settled = _all(bench.effects, count)
    assert {event.task for event in settled if isinstance(event, DoubtSettled)} == {f"t{n}" for n in range(count)}
    assert {(event.resolution, event.failure) for event in settled} == {("unknown", "interrupted")}
    assert sorted(asked) == sorted(f"t{number}" for number in range(LOOKS))
