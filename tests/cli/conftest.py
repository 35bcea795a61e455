"""The real command in a real process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import commands
import pytest
from commands import Ran
from workbench import ROOT


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
    path = os.pathsep.join(part for part in (str(ROOT), kept.get("PYTHONPATH", "")) if part)
    return {**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **extra}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Calls ``planrunner`` in the test's folder, where runs are kept too."""

    def call(*arguments: str, stdin: str | bytes = "", cwd: Path | None = None, **extra: str) -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        env = environment(**{"PLANRUNNER_STATE": str(tmp_path / "state"), **extra})
        return commands.run(*arguments, folder=cwd or tmp_path, env=env, stdin=data)

    return call


@pytest.fixture
def complete(run: Callable[..., Ran]) -> Callable[..., dict[str, str]]:
    """What a shell is offered for the last of the words: each candidate with its description; `file` for file names."""

    def call(*words: str) -> dict[str, str]:
        *before, last = words
        asked = {
            "_PLANRUNNER_COMPLETE": "fish_complete",
            "COMP_WORDS": " ".join(["planrunner", *before]),
            "COMP_CWORD": last,
        }
        offered = {}
        for line in filter(None, run(**asked).out.splitlines()):
            kind, _, rest = line.partition(",")
            value, _, text = rest.partition("\t")
            offered[value if kind == "plain" else kind] = text
        return offered

    return call


@pytest.fixture
def plan(tmp_path: Path) -> Callable[[str], str]:
    """Writes a plan and gives its name."""

    def write(text: str, name: str = "p.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    return write
