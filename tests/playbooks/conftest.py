"""Playbooks run for real, in the scratch project of their rehearsal; slow, each of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from workbench import ROOT

sys.path.insert(0, str(Path(__file__).parent))

from stage import Stage

from planrunner.testing.rehearsal import opened, prepare_of

REHEARSALS = ROOT / "plans" / "playbooks" / "rehearsals"


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Callable[[str], Stage]]:
    """Opens the scene of a playbook; its servers live until the end of the test."""
    with contextlib.ExitStack() as scenes:

        def stage(name: str) -> Stage:
            program = REHEARSALS / f"{name}.py"
            return Stage(scenes.enter_context(opened(prepare_of(program), program, tmp_path / name)))

        yield stage
