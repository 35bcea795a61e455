"""A hostile peer on the loopback, and a project that meets it. ``hostile_peer`` is beside this file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hostile_peer import Peer, Project, serving


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, peer: Peer) -> Project:
    return Project(tmp_path, peer)
