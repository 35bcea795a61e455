"""A project to draft plans in, and a server of a few pages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[2] / "agents")]

from projects import Project, pages


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.set()
    return made


@pytest.fixture
def server() -> Iterator[str]:
    with pages() as address:
        yield address
