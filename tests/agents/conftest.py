"""Projects whose agents ask a scripted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bench import Bench

from planrunner.testing.scripted_model import ScriptedModel


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """A project with a model that follows a script."""
    models: list[ScriptedModel] = []

    def made(script: Any, provider: str = "openai-compatible", **more: Any) -> Bench:
        models.append(ScriptedModel(script, **more))
        folder = tmp_path / f"project-{len(models)}"
        folder.mkdir()
        return Bench(folder, models[-1], provider)

    yield made
    for model in models:
        model.__exit__()
