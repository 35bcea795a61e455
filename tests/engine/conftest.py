"""Live effects on a state folder of their own, and calls for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from live_calls import Live

from planrunner.engine.effects import StartCall
from planrunner.engine.live import LiveEffects
from planrunner.machine.events import AttemptEnded, Outcome


class Bench(Live):
    """Live effects with a short way to start tasks and to collect their outcomes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "state")
        self.output: list[tuple[str, int, str, bytes]] = []
        self.effects = self.open()

    def open(self, **options: Any) -> LiveEffects:
        self.effects = self.live(**{"on_output": lambda *seen: self.output.append(seen), **options})
        return self.effects

    def reopen(self, **options: Any) -> LiveEffects:
        self.effects.close()
        return self.open(**options)

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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.effects.close()
    assert bench.gone()
