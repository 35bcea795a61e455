"""Live effects on a state folder of their own, and calls for them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities import builtin
from planrunner.capabilities.contract import Call
from planrunner.engine.effects import StartCall
from planrunner.engine.live import LiveEffects, LiveSettings
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.plan.model import Task


class Bench:
    """Live effects with a short way to start tasks and to collect their outcomes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = f"run-{uuid.uuid4().hex}"
        self.functions: dict[str, Callable[..., Any]] = {}
        self.output: list[tuple[str, int, str, bytes]] = []
        self.effects = self.open()

    def open(self, **options: Any) -> LiveEffects:
        settings = LiveSettings(
            str(self.folder / "state"),
            self.run_id,
            self.resolve,
            on_output=lambda *seen: self.output.append(seen),
            grace=0.3,
        )
        self.effects = LiveEffects(settings._replace(**options))
        return self.effects

    def reopen(self, **options: Any) -> LiveEffects:
        self.effects.close()
        return self.open(**options)

    def resolve(self, name: str) -> Callable[..., Any]:
        return self.functions.get(name) or builtin.load(builtin.TARGETS[name])

    def call(self, id: str = "task", *, uses: str = "shell", task: dict[str, Any] | None = None, **parts: Any) -> Call:
        values: dict[str, Any] = {
            "run_id": self.run_id,
            "task": Task(id, uses=uses, **(task or {})),
            "attempt": 1,
            "key": f"{self.run_id}:{id}:1",
            "inputs": {},
            "script": "",
            "arguments": (),
            "values": {},
            "env": {},
            "directory": str(self.folder),
            "scratch": str(self.folder / "scratch" / f"{id}.1"),
            "timeout": None,
        }
        return Call(**{**values, **parts})

    def start(self, id: str = "task", **parts: Any) -> None:
        self.effects.start([StartCall(self.call(id, **parts))])

    def outcomes(self, count: int = 1) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        while len(found) < count:
            events = self.effects.wait(None)
            assert events, "nothing is on its way any more"
            found.update({event.task: event.outcome for event in events if isinstance(event, AttemptEnded)})
        return found

    def run(self, script: str = "", **parts: Any) -> Outcome:
        self.start(script=script, **parts)
        return self.outcomes()["task"]

    def run_past(self, script: str, begun: str) -> Outcome:
        """The outcome of what outlives its timeout; a busy machine gets a longer one, until the file ``begun`` is there."""
        for timeout in (0.2, 2.0, 20.0, 200.0):
            outcome = self.run(script, timeout=timeout)
            if (self.folder / begun).exists() and (self.folder / begun).read_text():
                return outcome
        raise AssertionError(f"there is no {begun}")

    def log(self, id: str = "task") -> bytes:
        return (self.folder / "state" / "logs" / self.run_id / f"{id}.1.log").read_bytes()

    def alive(self) -> list[int]:
        """Living processes that carry the variables of this run."""
        marker = f"PLANRUNNER_RUN_ID={self.run_id}".encode()
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and marker in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                continue
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.effects.close()
    assert not bench.alive()
