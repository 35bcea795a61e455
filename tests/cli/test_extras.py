"""What is told to install where the packages of an extra are missing: packages by their names, where planrunner itself is."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from planrunner import extras


def test_the_packages_of_an_extra_are_named_and_planrunner_is_not() -> None:
    assert sorted(extras.packages("sql")) == ["psycopg[binary]>=3.2", "sqlalchemy<3,>=2.0"]
    assert {"'sqlalchemy<3,>=2.0'", "'psycopg[binary]>=3.2'"} < set(extras.installing("sql").split())
    for extra in importlib.metadata.metadata("planrunner").get_all("Provides-Extra") or ():
        if extra not in ("all", "test"):  # for people who stand in the clone
            assert "planrunner" not in " ".join(extras.packages(extra)), extra


def test_the_command_is_one_for_the_environment_of_planrunner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, other = tmp_path / "venv/bin", tmp_path / "other/bin"
    for folder in (beside, other):
        folder.mkdir(parents=True)
        (folder / "pip").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", f"{beside}:{other}")
    assert extras.installing("vector") == "pip install 'numpy>=1.26'"
    monkeypatch.setenv("PATH", f"{other}:{beside}")
    assert extras.installing("vector") == f"{beside}/python -m pip install 'numpy>=1.26'"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert extras.installing("vector") == f"uv pip install --python {beside}/python 'numpy>=1.26'"
    (tmp_path / "venv/pipx_metadata.json").touch()
    assert extras.installing("vector") == "pipx inject venv 'numpy>=1.26'"
