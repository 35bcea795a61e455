"""Runs in the environment of planrunner: a plan of noops run in memory, folded and replayed; prints a round a line:
entries, seconds of processor of the run, of the fold and of the replay."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests"))

from simulator.runs import PLACE, RUN_ID, START, Disk, Nobody

from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.events import Entry, Outcome, RunStarted
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

TRAITS = {"noop": ["pure", True, False]}


def run(plan: Plan) -> list[Entry]:
    disk = Disk()
    script = Script(lambda call: Outcome(outputs={"value": None}), lambda names: {})
    driver = Driver(State(plan, RUN_ID), disk.append, SimulatedEffects(script, START), PLACE, Nobody(), 0)
    driver.record(RunStarted("sha256:bench", {}, 7, traits=TRAITS))
    driver.run()
    return disk.entries


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    started = time.process_time()
    done = work()
    return time.process_time() - started, done


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = load(Source(file.read(), sys.argv[1], "yaml"), Registry()).plan
    assert plan is not None
    gc.freeze()
    for _ in range(int(sys.argv[2])):
        ran, entries = timed(partial(run, plan))
        folded, _state = timed(partial(fold, plan, RUN_ID, entries))
        again, replayed = timed(partial(replay, plan, RUN_ID, entries))
        assert replayed.difference is None
        print(len(entries), ran, folded, again)


if __name__ == "__main__":
    main()
