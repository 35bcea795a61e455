"""The real command in a real process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from workbench import planrunner


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Calls ``planrunner`` in the test's folder, where runs are kept too."""

    def call(*arguments: str) -> Ran:
        done = planrunner(tmp_path, *arguments, PLANRUNNER_STATE=str(tmp_path / "state"))
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
