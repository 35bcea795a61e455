"""A project whose processes are shut in."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
sys.path.insert(0, str(Path(__file__).parent))

from sandbox_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    yield project
    # bwrap tells the end of a program before the kernel has ended what else is in the namespace
    deadline = time.monotonic() + 240
    while project.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not project.alive()
