"""Live effects on a state folder of their own, calls for them, and the processes that they left behind."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planrunner.capabilities import builtin
from planrunner.capabilities.contract import Call
from planrunner.engine.executors import LiveSettings
from planrunner.engine.live import LiveEffects
from planrunner.plan.model import Task


class Live:
    """A run of single tasks in ``folder``. ``functions`` are capabilities by name, before those that are built in."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.state = state
        self.run_id = f"run-{uuid.uuid4().hex}"
        self.functions: dict[str, Callable[..., Any]] = {}

    def resolve(self, name: str) -> Callable[..., Any]:
        return self.functions.get(name) or builtin.load(builtin.TARGETS[name])

    def live(self, **options: Any) -> LiveEffects:
        settings = LiveSettings(str(self.state), self.run_id, self.resolve, grace=0.3)
        return LiveEffects(settings._replace(**options))

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

    def gone(self) -> bool:
        """Whether no such process is left. One that was killed ends when its machine gets to it."""
        deadline = time.monotonic() + 240
        while (alive := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.002)
        return not alive
