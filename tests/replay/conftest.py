"""The real command in a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Calls ``planrunner`` in the test's folder, where runs are kept too."""

    def call(*arguments: str) -> Ran:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
        done = subprocess.run(
            [sys.executable, "-m", "planrunner", *arguments],
            capture_output=True,
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
            stdin=subprocess.DEVNULL,
            timeout=240,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call
