"""The real command in real processes. Gates of the machine alone are run by ``simulator.gates``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import Ran

sys.path.insert(0, str(Path(__file__).parent))


class Project:
    """A folder with a plan and a state of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {**os.environ, "PLANRUNNER_STATE": str(path / "state"), "USER": "ana"}

    def plan(self, text: str) -> None:
        (self.path / "p.yaml").write_text(text, encoding="utf-8")

    def start(self, *arguments: str, **extra: str) -> commands.Started:
        return commands.start(*arguments, folder=self.path, env={**self.environment, **extra})

    def __call__(self, *arguments: str, **extra: str) -> Ran:
        return commands.run(*arguments, folder=self.path, env={**self.environment, **extra})

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self("events", "last", "--json").out.splitlines()]
        return [line for line in lines if line.get("type") == kind]


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Ran]:
    return Project(tmp_path)
