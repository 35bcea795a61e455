"""The real command in a real process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Ran
from workbench import planrunner


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Calls ``planrunner`` in the test's folder, where runs are kept too."""

    def call(*arguments: str) -> Ran:
        done = planrunner(tmp_path, *arguments, PLANRUNNER_STATE=str(tmp_path / "state"))
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
