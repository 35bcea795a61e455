"""A run records digests of the settings it was made with; `diff` and `show` name the sections that differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import commands
import pytest
from workbench import environment

PLAN = """
plan: p
tasks:
  - {id: build, run: echo build}
  - {id: ok, needs: [build], gate: approval, ask: "Deploy?"}
"""
SETTINGS = """
include: [config/models.yaml]
scheduler: {max_parallel: 4}
people: {ana: [release]}
"""
MODELS = "models: {small: {provider: ollama, model: one, key_env: MODEL_KEY}}\n"

Command = Callable[..., commands.Ran]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "p.yaml").write_text(PLAN)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/models.yaml").write_text(MODELS)
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    env = environment(PLANRUNNER_STATE=str(tmp_path / "state"), XDG_CONFIG_HOME=str(tmp_path / "none"))

    def run(*words: str) -> commands.Ran:
        return commands.run(*words, folder=tmp_path, env=env)

    return run


def _begin(command: Command) -> str:
    done = command("exec", "p.yaml", "--unattended", "--json")
    assert done.code == 8, done.err
    return str(done.data["run_id"])


def _events(command: Command, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, command("events", "last", "--json", "--type", kind).out.splitlines())
    return [line for line in lines if line.get("type") == kind]


def _differing(command: Command, one: str, other: str) -> list[str]:
    return [each["name"] for each in command("diff", one, other, "--json").data["versions"]]


def test_a_run_records_a_digest_of_each_section_and_of_each_file(command: Command, tmp_path: Path) -> None:
    _begin(command)
    settings = _events(command, "run_started")[0]["environment"]["settings"]
    assert set(settings["sections"]) == {"models", "scheduler", "people"}
    assert set(settings["files"]) == {"planrunner.yaml", "config/models.yaml"}
    digests = [settings["digest"], *settings["sections"].values(), *settings["files"].values()]
    assert {len(digest) for digest in digests} == {len(sha256().hexdigest())}
    assert command("show", "last", "--json").data["settings"] == settings


def test_a_run_without_settings_records_none(command: Command, tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").unlink()
    _begin(command)
    assert "settings" not in _events(command, "run_started")[0]["environment"]
    assert command("show", "last", "--json").data["settings"] is None


CHANGES = {
    "a file that is included": ("config/models.yaml", "model: one", "model: two", ["settings models"]),
    "the scheduler": ("planrunner.yaml", "max_parallel: 4", "max_parallel: 5", ["settings scheduler"]),
    "a section more": ("planrunner.yaml", "people:", "git: {name: Ana}\npeople:", ["settings git"]),
    "a section less": ("planrunner.yaml", "people: {ana: [release]}", "", ["settings people"]),
    "the name of a variable": ("config/models.yaml", "MODEL_KEY", "OTHER_KEY", ["settings models"]),
    "a comment": ("planrunner.yaml", "people:", "# those who decide\npeople:", []),
}


@pytest.mark.parametrize(("file", "old", "new", "names"), CHANGES.values(), ids=CHANGES)
def test_the_comparison_of_two_runs_names_the_sections_that_differ(
    command: Command, tmp_path: Path, file: str, old: str, new: str, names: list[str]
) -> None:
    one = _begin(command)
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace(old, new))
    assert _differing(command, one, _begin(command)) == names


def test_the_comparison_names_every_section_where_one_run_had_no_settings(command: Command, tmp_path: Path) -> None:
    one = _begin(command)
    (tmp_path / "planrunner.yaml").unlink()
    other = _begin(command)
    assert _differing(command, one, other) == ["settings models", "settings people", "settings scheduler"]
    assert "~ settings models: " in command("diff", one, other).out


def test_a_run_that_is_resumed_under_other_settings_records_them_once(command: Command, tmp_path: Path) -> None:
    one = _begin(command)
    (tmp_path / "config/models.yaml").write_text(MODELS.replace("one", "two"))
    assert command("resume", one, "--unattended").code == 8
    assert command("resume", one, "--unattended").code == 8
    first, second = _events(command, "run_resumed")
    assert second["settings"] == {}
    assert "settings changed since the start: models" in command("show", one).out
    assert _differing(command, one, _begin(command)) == []
    assert command("show", one, "--json").data["settings"] == first["settings"]
    assert command("replay", one).code == 0


def test_a_run_whose_settings_are_taken_away_and_put_back_has_those_of_its_start(
    command: Command, tmp_path: Path
) -> None:
    one = _begin(command)
    (tmp_path / "planrunner.yaml").unlink()
    assert command("resume", one, "--unattended").code == 8
    assert "settings changed since the start: models, people, scheduler" in command("show", one).out
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    assert command("resume", one, "--unattended").code == 8
    assert [bool(event["settings"]["sections"]) for event in _events(command, "run_resumed")] == [False, True]
    assert "settings changed" not in command("show", one).out


FAILING = "plan: p\ntasks:\n  - {id: build, run: echo build}\n  - {id: bad, needs: [build], run: exit 1}\n"
WAYS = (("retry", "last"), ("rerun", "last", "build"), ("resume", "last", "--from", "build"))


@pytest.mark.parametrize("way", WAYS, ids=["retry", "rerun", "fork"])
def test_every_way_to_continue_a_run_records_other_settings(
    command: Command, tmp_path: Path, way: tuple[str, ...]
) -> None:
    (tmp_path / "p.yaml").write_text(FAILING)
    assert command("exec", "p.yaml").code == 1
    (tmp_path / "config/models.yaml").write_text(MODELS.replace("one", "two"))
    command(*way)
    assert list(_events(command, "run_resumed")[-1]["settings"]["sections"]) == ["models", "people", "scheduler"]
    assert "settings changed since the start: models" in command("show", "last").out
    assert command("replay", "last").code == 0


def test_a_revised_run_keeps_the_settings_it_was_resumed_with(command: Command, tmp_path: Path) -> None:
    one = _begin(command)
    (tmp_path / "config/models.yaml").write_text(MODELS.replace("one", "two"))
    assert command("resume", one, "--unattended").code == 8
    (tmp_path / "p.yaml").write_text(PLAN.replace("echo build", "echo again"))
    assert command("resume", one, "--plan", "p.yaml", "--unattended").code == 8
    assert [bool(event["settings"]) for event in _events(command, "run_resumed")] == [True, False]
    assert command("replay", one).code == 0
