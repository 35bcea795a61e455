"""A project whose agents ask a scripted model, and the command in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from workbench import planrunner

from planrunner.testing.scripted_model import ScriptedModel

Json = Any
Case = TypeVar("Case")

EVERY = os.environ.get("PLANRUNNER_AGENTS") == "all"  # read here: tests do not see the caller's settings
"""Whether all cases are run, as `.ci/nightly` does."""


def sampled(cases: Sequence[Case], step: int) -> Sequence[Case]:
    """All cases at night, else every ``step``-th."""
    return cases if EVERY else cases[::step]


class Bench:
    """A folder with a plan, agents and a model that says what its script tells it."""

    def __init__(self, folder: Path, model: ScriptedModel, provider: str = "openai-compatible") -> None:
        self.folder, self.model = folder, model
        self.settings: dict[str, Json] = {
            "network": {"private": ["127.0.0.1"]},
            "models": model.settings(provider),
            "agents": {"coder": {"model": "scripted", "system": "You mend.", "tools": ["files.*", "shell", "ask"]}},
        }

    def write(self, plan: str, name: str = "plan.yaml", **sections: Json) -> None:
        self.settings.update(sections)
        (self.folder / "planrunner.yaml").write_text(json.dumps(self.settings))
        (self.folder / name).write_text(plan)

    def call(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return planrunner(self.folder, *words, **variables)

    def run(self, plan: str, *words: str, **sections: Json) -> dict[str, Json]:
        """The run of a plan as ``exec --json`` tells it."""
        self.write(plan, **sections)
        ran = self.call("exec", "plan.yaml", "--json", *words)
        assert ran.stdout, ran.stderr
        told: dict[str, Json] = json.loads(ran.stdout)
        assert "status" in told, (told, ran.stderr)
        return told

    def outputs(self, told: dict[str, Json], task: str) -> dict[str, Json]:
        found: dict[str, Json] = told["tasks"][task]["outputs"]
        return found
