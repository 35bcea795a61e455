"""The plans of models through the real command line, with a server that speaks for four providers; then without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aimock
import pytest
import workbench
from shown import check_output
from workbench import ROOT

from planrunner.safety.sandbox import presence

pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")

PLANS = ROOT / "plans" / "capabilities"
CANARY = "sk-canary-c0ffee5eed42"


class Project:
    """A project whose models are served by a process of its own."""

    def __init__(self, folder: Path, server: aimock.Server) -> None:
        self.folder = folder
        self.stop = server.stop
        settings = (ROOT / "planrunner.yaml").read_text().replace("http://127.0.0.1:4010", server.url)
        settings = settings.replace("price:", "key_env: CANARY, price:").replace(
            "    key_env: CANARY, price:", "    key_env: CANARY\n    price:"
        )
        (folder / "planrunner.yaml").write_text(settings)

    def planrunner(self, *words: str) -> subprocess.CompletedProcess[str]:
        return workbench.planrunner(self.folder, *words, PLANRUNNER_STATE=str(self.folder / "state"), CANARY=CANARY)

    def run(self, plan: str, *words: str) -> dict[str, Any]:
        shutil.copy(PLANS / plan, self.folder)
        ended = self.planrunner("exec", plan, "--json", *words)
        assert ended.returncode == 0, ended.stderr
        check_output(f"capabilities/{plan}", ended.stderr, 0, self.folder)
        return dict(json.loads(ended.stdout), stderr=ended.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with aimock.served(PLANS / "peers" / "models.json") as server:
        yield Project(tmp_path, server)


def test_four_providers_answer_and_the_run_replays_without_them(project: Project) -> None:
    told = project.run("llm-complete.yaml")
    tasks = told["tasks"]
    assert told["outputs"]["author"] == {"name": "Ada Lovelace", "born": 1815}
    assert told["outputs"]["summary"].startswith("The engine weaves")
    assert len(tasks["author"]["outputs"]["attempts"]) == 2
    assert tasks["tool"]["outputs"]["tool_calls"][0]["arguments"] == {"city": "Paris"}
    assert [each["status"] for each in tasks["standby"]["outputs"]["attempts"]] == [429, 200]
    assert told["budget"]["calls"] == {"used": 6, "reserved": 0, "limit": 20}
    assert 0 < told["budget"]["cost"]["used"] < 0.01 and told["budget"]["cost"]["reserved"] == 0
    assert "The engine weaves" in project.planrunner("logs", "last", "summary").stdout
    assert_replays(project, told)
    assert_without_key(project, told)


def test_verdicts_votes_and_vectors_replay_without_a_model(project: Project) -> None:
    told = project.run("llm-judge.yaml")
    assert [each["met"] for each in told["outputs"]["verdicts"]] == ["yes", "unsure"]
    assert told["outputs"]["verdicts"][0]["quotes"] == ["run `rollback.sh`"]
    assert (told["outputs"]["prime"], told["outputs"]["agreement"]) == ("Yes.", 0.666667)
    assert len(told["tasks"]["vectors"]["outputs"]["vectors"][0]) == 64
    assert told["budget"]["calls"]["used"] == 4
    assert_replays(project, told)
    assert_without_key(project, told)


def assert_replays(project: Project, told: dict[str, Any]) -> None:
    """With the server gone the run replays, and gives the same outputs byte for byte."""
    project.stop()
    replayed = project.planrunner("replay", "last")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    shown = json.loads(project.planrunner("show", "last", "--json").stdout)
    assert json.dumps(shown["outputs"]) == json.dumps(told["outputs"])
    for name, task in told["tasks"].items():
        assert json.dumps(shown["tasks"][name]["outputs"]) == json.dumps(task["outputs"])


def assert_without_key(project: Project, told: dict[str, Any]) -> None:
    assert CANARY not in json.dumps(told)
    files = [path for path in (project.folder / "state").rglob("*") if path.is_file()]
    assert len(files) > 3 and not [path for path in files if CANARY.encode() in path.read_bytes()]


@pytest.mark.skipif(presence.bubblewrap()[1] != "", reason="bubblewrap is not installed")
def test_a_model_writes_tests_and_hypothesis_finds_the_input_that_breaks_one(project: Project) -> None:
    pytest.importorskip("hypothesis")
    told = project.run("llm-tests.yaml", "-p", f"python={sys.executable}")
    assert (told["outputs"]["counts"]["passed"], told["outputs"]["counts"]["failed"]) == (1, 1)
    assert "test_two_halves_are_the_whole" in told["outputs"]["found"]
    assert "cents=" in told["outputs"]["found"]
