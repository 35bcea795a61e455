"""Runs of small plans, made in this process and kept in the test's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner import embed


class Made:
    """A folder with plans and their runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = str(folder / ".planrunner")

    def run(self, text: str, name: str = "p.yaml", **params: object) -> str:
        """Run a plan; gives the id of the run."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return embed.run(path, params, state=self.state).id


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    return Made(tmp_path)
