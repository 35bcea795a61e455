"""Attempts in the engine with a policy of their own, on a project with a repository and a journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from live_calls import Live

from planrunner.engine.effects import StartCall
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.plan.rights import Level
from planrunner.safety.sandbox import presence

needs_bubblewrap = pytest.mark.skipif(presence.bubblewrap()[1] != "", reason=presence.bubblewrap()[1] or "works")
needs_landlock = pytest.mark.skipif(
    presence.landlock() < presence.LEAST_ABI, reason=f"the kernel has version {presence.landlock()} of Landlock"
)
STRICT = Level("task t", {"sandbox": True})


class Project(Live):
    """A project in which single tasks run under given levels of policy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "project", folder / "project" / ".planrunner")
        (self.folder / ".git" / "hooks").mkdir(parents=True)
        (self.folder / ".git" / "config").write_text("[core]\n")
        self.state.mkdir()
        (self.state / "journal.db").write_text("the journal")
        (self.folder / "src").mkdir()
        (self.folder / "src" / "one.txt").write_text("one")

    def run(self, script: str = "", *levels: Level, options: Mapping[str, Any] | None = None, **parts: Any) -> Outcome:
        given = {"rights": levels or (STRICT,), "scratch": str(self.state / "tmp" / self.run_id / "t.1"), **parts}
        effects = self.live(**{"directory": str(self.folder), **(options or {})})
        try:
            effects.start([StartCall(self.call("t", script=script, **given))])
            while True:
                for event in effects.wait(None):
                    if isinstance(event, AttemptEnded):
                        return event.outcome
        finally:
            effects.close()


def limited(**limits: Any) -> Level:
    return Level("task t", {"sandbox": limits})
