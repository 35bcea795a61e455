"""Plans and test files written in a folder of the test's own, and the proof commands called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planrunner.cli import main


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Writes a file below the test's folder, which is the working directory; gives its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".planrunner").mkdir(mode=0o700)

    def put(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    return put


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Calls the command; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        done = capsys.readouterr()
        return code, done.out, done.err

    return run


@pytest.fixture
def data(call: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, Any]]:
    """Calls the command with ``--json``; gives exit code and data."""

    def run(*arguments: str) -> tuple[int, Any]:
        code, out, err = call(*arguments, "--json")
        assert out, err
        return code, json.loads(out)

    return run
