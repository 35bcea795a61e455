"""Attempts in the engine with a policy of their own, on a project with a repository and a journal."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities import builtin
from planrunner.capabilities.contract import Call
from planrunner.engine.effects import StartCall
from planrunner.engine.live import LiveEffects, LiveSettings
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.plan.model import Task
from planrunner.plan.rights import Level
from planrunner.safety.sandbox import presence

needs_bubblewrap = pytest.mark.skipif(presence.bubblewrap()[1] != "", reason=presence.bubblewrap()[1] or "works")
needs_landlock = pytest.mark.skipif(
    presence.landlock() < presence.LEAST_ABI, reason=f"the kernel has version {presence.landlock()} of Landlock"
)
STRICT = Level("task t", {"sandbox": True})


class Project:
    """A project in which single tasks run under given levels of policy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.state = self.folder / ".planrunner"
        self.functions: dict[str, Callable[..., Any]] = {}
        self.run_id = f"run-{uuid.uuid4().hex}"
        (self.folder / ".git" / "hooks").mkdir(parents=True)
        (self.folder / ".git" / "config").write_text("[core]\n")
        self.state.mkdir()
        (self.state / "journal.db").write_text("the journal")
        (self.folder / "src").mkdir()
        (self.folder / "src" / "one.txt").write_text("one")

    def resolve(self, name: str) -> Callable[..., Any]:
        return self.functions.get(name) or builtin.load(builtin.TARGETS[name])

    def open(self, **options: Any) -> LiveEffects:
        settings = LiveSettings(str(self.state), self.run_id, self.resolve, grace=0.3, directory=str(self.folder))
        return LiveEffects(settings._replace(**options))

    def call(self, levels: Sequence[Level], parts: Mapping[str, Any]) -> Call:
        values: dict[str, Any] = {
            "run_id": self.run_id, "task": Task("t", uses=parts.get("uses", "shell"), **parts.get("task", {})),
            "attempt": 1, "key": f"{self.run_id}:t:1", "inputs": {}, "script": "", "arguments": (), "values": {},
            "env": {}, "directory": str(self.folder), "scratch": str(self.state / "tmp" / self.run_id / "t.1"),
            "timeout": None, "rights": tuple(levels),
        }  # fmt: skip
        return Call(**{**values, **{name: value for name, value in parts.items() if name not in ("uses", "task")}})

    def run(self, script: str = "", *levels: Level, options: Mapping[str, Any] | None = None, **parts: Any) -> Outcome:
        effects = self.open(**(options or {}))
        try:
            effects.start([StartCall(self.call(levels or (STRICT,), {"script": script, **parts}))])
            while True:
                for event in effects.wait(None):
                    if isinstance(event, AttemptEnded):
                        return event.outcome
        finally:
            effects.close()

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


def limited(**limits: Any) -> Level:
    return Level("task t", {"sandbox": limits})
