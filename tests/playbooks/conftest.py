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

from planrunner.testing.rehearsal import Prepare, Scene, module_of, opened
from planrunner.testing.scripted_model import Heard, Reply, ScriptedModel

REHEARSALS = ROOT / "plans" / "playbooks" / "rehearsals"


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Opens the scene of a playbook, as its rehearsal or another function prepares it; its servers live until the end of
    the test."""
    with contextlib.ExitStack() as scenes:

        def stage(name: str, prepare: Prepare | None = None) -> Stage:
            program = REHEARSALS / f"{name}.py"
            made = opened(prepare or module_of(program).prepare, program, tmp_path / name)
            return Stage(scenes.enter_context(made))

        yield stage


@pytest.fixture
def modelled(staged: Callable[..., Stage]) -> Callable[..., tuple[Stage, ScriptedModel]]:
    """Opens a project with another model than that of the rehearsal."""

    def stage(name: str, project: Prepare, answer: Callable[[Heard], Reply]) -> tuple[Stage, ScriptedModel]:
        models: list[ScriptedModel] = []

        def prepare(scene: Scene) -> None:
            models.append(scene.model(answer))
            project(scene)

        return staged(name, prepare), models[0]

    return stage
