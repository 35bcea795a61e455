"""The plan of research through the real command line: a search server and a site on loopback, then nobody."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench
from shown import check_output
from workbench import ROOT


class Web:
    """The peer of the plan as a person starts it, in a process of its own."""

    def __init__(self) -> None:
        program = ROOT / "plans" / "capabilities" / "peers" / "research_web.py"
        self.process = subprocess.Popen([sys.executable, str(program), "0"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.stop()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copy(ROOT / "planrunner.yaml", tmp_path)
    (tmp_path / ".planrunner").mkdir(mode=0o700)
    return tmp_path


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, NO_COLOR="1")


def run(folder: Path, plan: str, *words: str) -> dict[str, Any]:
    ended = planrunner(folder, "exec", plan, "--json", *words)
    assert ended.stdout, ended.stderr
    return dict(json.loads(ended.stdout), stderr=ended.stderr)


def test_a_question_becomes_cited_facts_and_replays_without_a_network(project: Path, web: Web) -> None:
    told = run(project, "plans/capabilities/research.yaml", "-p", f"server={web.url}")
    assert told["exit_code"] == 0, told["stderr"]
    check_output("capabilities/research.yaml", told["stderr"], 0, project)
    outputs = {name: task["outputs"] for name, task in told["tasks"].items()}
    assert outputs["search"]["silent"] == {"slowpoke": "timeout"}
    assert {each["failure"] for each in outputs["fetch"]["failed"]} == {"policy", "unsupported"}
    assert {each["title"] for each in outputs["fetch"]["docs"]} >= {
        "Congestion control in QUIC",
        "What HTTP/3 leaves to QUIC",
    }
    assert [each["kind"] for each in outputs["dedupe"]["dropped"]] == ["near"]
    assert "tomatoes" not in json.dumps(outputs["rank"]["sources"])
    assert all(source["reason"].startswith("has ") for source in outputs["rank"]["sources"])
    assert outputs["facts"]["cross_checked"] == 2
    assert told["outputs"]["cross_checked"] == 2
    assert "RFC 9114 is the specification of HTTP/3" in told["outputs"]["bibliography"]
    assert 3 < told["budget"]["calls"]["used"] <= 20  # three questions, and the pages
    web.stop()
    replayed = planrunner(project, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr
    assert planrunner(project, "show", "last", "--json").returncode == 0


@pytest.mark.slow
def test_a_second_run_reads_from_the_cache_what_has_not_changed(project: Path, web: Web) -> None:
    for cached in (False, True):
        told = run(project, "plans/capabilities/research.yaml", "-p", f"server={web.url}")
        docs = told["tasks"]["fetch"]["outputs"]["docs"]
        assert [doc["from_cache"] for doc in docs if doc["url"].endswith(("/cubic", "/http3", "/long"))] == [cached] * 4


def test_nothing_found_is_told_as_the_failure_that_the_plan_names(project: Path, web: Web) -> None:
    told = run(project, "plans/capabilities/research.yaml", "-p", f"server={web.url}", "-p", "query=nothing")
    assert told["exit_code"] == 1
    assert "no_results" in told["tasks"]["search"]["detail"]


@pytest.mark.slow
def test_a_command_of_a_task_does_the_same_in_three_calls(project: Path, web: Web) -> None:
    told = run(project, "plans/capabilities/commands-research.yaml", "-p", f"server={web.url}")
    assert told["exit_code"] == 0, told["stderr"]
    check_output("capabilities/commands-research.yaml", told["stderr"], 0, project)
    sources = told["tasks"]["collect"]["outputs"]["sources"]
    assert sources["query"] == "HTTP/3 congestion control"
    assert [source["rank"] for source in sources["sources"]] == list(range(1, len(sources["sources"]) + 1))
    web.stop()
    assert planrunner(project, "replay", "last").returncode == 0


def test_a_private_server_that_the_project_does_not_allow_is_refused(project: Path, web: Web) -> None:
    (project / "planrunner.yaml").unlink()
    told = run(project, "plans/capabilities/research.yaml", "-p", f"server={web.url}")
    assert told["exit_code"] != 0
    assert "network.private" in told["tasks"]["search"]["detail"] or "private" in told["stderr"]
