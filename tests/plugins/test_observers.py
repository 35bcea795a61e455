"""Plugins that watch runs: they are shown everything in order, and nothing they do reaches the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from workbench import ROOT

from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.machine.events import AttemptEnded, Entry, Outcome, TaskQueued
from planrunner.plugins.observers import Observer, Observers, copied
from planrunner.plugins.registry import Registry


def _entry(number: int = 1) -> Entry:
    return Entry(number, 0.0, TaskQueued("task"))


def _observers(function: Any, limit: int = 100) -> tuple[Observers, list[str]]:
    told: list[str] = []
    observer = Observer("watcher", function, ("run_id", "entry"))
    return Observers([observer], lambda _, problem: told.append(problem), limit), told


class TestDelivery:
    def test_each_observer_sees_every_event_in_order_and_a_fault_is_reported_once(self) -> None:
        seen: list[int] = []

        def fault(entry: Entry) -> None:
            raise RuntimeError("no luck\nat all")

        registry = Registry(plugins=False)
        one = SimpleNamespace(planrunner_observe_event=lambda entry: seen.append(entry.seq))
        registry.add(one, "one")
        registry.add(SimpleNamespace(planrunner_observe_event=fault), "two")
        observe = registry.observer()
        assert observe is not None
        for number in range(200):
            observe("run", _entry(number))
        observe.flush()
        assert seen == list(range(200))
        assert registry.problems() == ("the plugin two failed in `planrunner_observe_event`: RuntimeError: no luck",)
        assert registry.problems("two") == registry.problems()

    def test_they_run_in_threads_of_their_own_that_keep_no_process_alive(self) -> None:
        threads: list[threading.Thread] = []
        observers, _ = _observers(lambda run_id, entry: threads.append(threading.current_thread()))
        observers("run", _entry())
        observers.flush()
        assert threads[0] is not threading.main_thread()
        assert threads[0].daemon

    def test_one_that_is_slow_misses_events_which_are_counted_and_the_run_does_not_wait(self) -> None:
        release = threading.Event()
        observers, told = _observers(lambda run_id, entry: release.wait(600), limit=10)
        began = time.monotonic()
        for number in range(50):
            observers("run", _entry(number))
        observers.flush(0.1)
        assert time.monotonic() - began < 300
        assert told == ["the plugin watcher could not keep up with the run: its observer missed 50 events"]
        release.set()

    @pytest.mark.parametrize(
        "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), ValueError("x")]
    )
    def test_whatever_one_raises_ends_neither_the_run_nor_its_watching(self, error: BaseException) -> None:
        seen: list[int] = []

        def watch(run_id: str, entry: Entry) -> None:
            seen.append(entry.seq)
            raise error

        observers, told = _observers(watch)
        for number in (1, 2, 3):
            observers("run", _entry(number))
        observers.flush()
        assert seen == [1, 2, 3]
        assert len(told) == 1
        assert type(error).__name__ in told[0]

    def test_what_one_is_shown_is_its_own_copy_all_the_way_down(self) -> None:
        outputs: dict[str, Any] = {"list": [1, {"deep": "value"}]}
        event = AttemptEnded("task", 1, Outcome(outputs=outputs))
        shown = copied(Entry(7, 0.5, event))
        assert shown == Entry(7, 0.5, event)
        assert type(shown.event) is AttemptEnded
        shown.event.outcome.outputs["list"][1]["deep"] = "changed"
        shown.event.outcome.outputs["more"] = 1
        assert outputs == {"list": [1, {"deep": "value"}]}


PLAN = """
plan: watched
tasks:
  - {id: first, uses: noop, with: {value: {n: [1]}}}
  - {id: second, needs: [first], run: "sleep 0.2; echo {{ tasks.first.outputs.value.n[0] }}", timeout: 2m}
"""

HOSTILE = """
import os, sys, threading, time

def planrunner_observe_event(run_id, entry):
    outcome = getattr(entry.event, "outcome", None)
    if outcome is not None and outcome.outputs:
        outcome.outputs.clear()
    kind = os.environ["KIND"]
    if kind == "exit":
        sys.exit(9)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "hang":
        time.sleep(600)
    if kind == "close":
        print(end="")
        sys.stdout.close()
        sys.stderr.close()
    if kind == "lock":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


@pytest.mark.parametrize("kind", ["calm", "exit", "interrupt", "hang", "lock", "close"])
def test_a_run_ends_the_same_whatever_an_observer_does(kind: str, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    about = site / "hostile-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[planrunner.plugins]\nhostile = hostile_observer\n")
    (site / "hostile_observer.py").write_text(HOSTILE)
    (tmp_path / "plan.yaml").write_text(PLAN)
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]), "KIND": kind,
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "PLANRUNNER_STATE": str(tmp_path / "state"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "planrunner", "exec", "plan.yaml", "--json", "--progress", "quiet"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: task["status"] for name, task in found["tasks"].items()} == {
        "first": "completed",
        "second": "completed",
    }
    warned = {"exit": "SystemExit", "interrupt": "KeyboardInterrupt", "hang": "could not keep up"}.get(kind)
    assert (f"warning: the plugin hostile {'failed' if kind != 'hang' else 'could'}" in done.stderr) == bool(warned)
    assert warned is None or warned in done.stderr


def test_an_observer_sees_a_run_from_its_first_event_to_its_last(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []

    def planrunner_observe_event(run_id: str, entry: Entry) -> None:
        seen.append((entry.seq, type(entry.event).__name__))

    registry = Registry(plugins=False)
    registry.add(SimpleNamespace(planrunner_observe_event=planrunner_observe_event), "watch")
    (tmp_path / "plan.yaml").write_text(PLAN)
    result = execute(
        ExecRequest(str(tmp_path / "plan.yaml"), state=str(tmp_path / "state"), vouched=True), Silent(), registry
    )
    assert seen[0] == (1, "RunStarted")
    assert [number for number, _ in seen] == list(range(1, result.entries_seen + 1))
