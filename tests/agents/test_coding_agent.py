"""The coding agent of ``plans/agents``: it plans, codes, tests and reflects in a real repository until the tests pass, and
leaves the tree as it was when it gives up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, sampled
from workbench import ROOT

from planrunner.testing.scripted_model import Heard

pytestmark = pytest.mark.slow

Json = Any
Make = Callable[..., Bench]

RIGHT, WRONG = "2 if length <= 8", "0 if length <= 8"
"""What the module says, and the bug that is planted."""
PLAN = (ROOT / "plans" / "agents" / "coding-agent.yaml").read_text()
AGENTS = {
    "planner": {"model": "scripted", "tools": ["files.read", "files.glob"]},
    "coder": {"model": "scripted", "tools": ["files.*"]},
    "reflector": {"model": "scripted"},
}


class Coder:
    """A model that mends the bug in its ``good`` round, and changes a comment in those before; ``says`` is what the
    comment prints, so that rounds fail alike or each in its own way. ``kill`` is the request at which the runner
    dies."""

    def __init__(self, good: int, says: str = "", kill: int = 0) -> None:
        self.good, self.says, self.kill, self.asked = good, says, kill, 0
        self.runner: subprocess.Popen[bytes] | None = None

    def __call__(self, heard: Heard) -> Json:
        self.asked += 1
        if self.asked == self.kill and self.runner is not None:
            os.killpg(self.runner.pid, signal.SIGKILL)
        if "Say which files" in heard.said():
            return [("answer", {"steps": ["mend nearest"], "files": ["nearest.py"]})]
        if "These tests failed" in heard.said():
            return [("answer", {"lesson": f"The bound is wrong, it says {heard.said().count('failed')}."})]
        if heard.turns[-1][0] == "tool":
            return "I changed it."
        number = sum(role == "user" for role, _ in heard.turns)
        if number == self.good:
            return [_edit(WRONG, RIGHT), ("files_write", {"path": "NOTES.md", "content": "Mended.\n"})]
        if self.says == "varied":  # every second round pytest cannot even begin
            return [("files_write", {"path": "conftest.py", "content": "(" * (number % 2)})]
        return [("files_write", {"path": "said.py", "content": f"SAID = '{self.says.format(number)}'\n"})]


def _edit(search: str, replace: str) -> Json:
    return "files_edit", {"blocks": [{"path": "nearest.py", "search": search, "replace": replace}]}


def repository(bench: Bench) -> None:
    """A module of ours with its tests and a planted bug, in git."""
    module = (ROOT / "planrunner" / "plan" / "nearest.py").read_text()
    tests = (ROOT / "tests" / "plan" / "test_nearest.py").read_text().replace("planrunner.plan.nearest", "nearest")
    whole = tests.partition("@given")[0].replace(
        "from hypothesis import given\nfrom hypothesis import strategies as st\n", ""
    )
    (bench.folder / "nearest.py").write_text(module.replace(RIGHT, WRONG))
    (bench.folder / "test_nearest.py").write_text(
        whole + "\n\ndef test_said() -> None:\n    import said\n\n    assert nearest('timout', KEYS), said.SAID\n"
    )
    (bench.folder / "said.py").write_text("SAID = ''\n")
    (bench.folder / ".gitignore").write_text("__pycache__\n.planrunner\n")
    bench.write(PLAN, agents=AGENTS)
    git(bench.folder, "init", "-q")
    git(bench.folder, "add", "-A")
    git(bench.folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "begin")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_it_goes_on_until_the_tests_pass(make: Make) -> None:
    bench = make(Coder(good=3, says="round {}"))
    repository(bench)
    ran = bench.call("exec", "plan.yaml", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["tasks"]["work"]["outputs"]["rounds"] == 3
    assert git(bench.folder, "status", "--short").split() == ["M", "nearest.py", "M", "said.py", "??", "NOTES.md"]
    coded = [heard for heard in bench.model.heard if heard.turns[-1][1].startswith("Make the failing tests pass.")]
    assert "Steps: mend nearest" in coded[1].last()
    assert "The bound is wrong" in coded[-1].last() and "I changed it." in coded[-1].said()
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


@pytest.mark.parametrize(
    ("says", "rounds", "why"),
    sampled(
        [
            ("round {}", 12, "the last 12 rounds failed alike"),
            ("varied", 15, "is still false after 15 rounds"),
        ],
        2,
    ),
)
def test_it_gives_up_and_leaves_the_tree_as_it_was(make: Make, says: str, rounds: int, why: str) -> None:
    bench = make(Coder(good=99, says=says))
    repository(bench)
    ran = bench.call("exec", "plan.yaml", "--json")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["status"]) == (1, "failed"), ran.stderr
    assert why in told["tasks"]["work"]["detail"]
    assert f"work#{rounds}/code" in told["tasks"] and f"work#{rounds + 1}/code" not in told["tasks"]
    assert git(bench.folder, "status", "--short") == ""
    kept = bench.call("checkpoints", "last").stdout
    assert "work#5" in kept and "work#10" in kept


@pytest.mark.parametrize("kill", sampled([3, 1, 4, 6], 4))
def test_killed_at_any_request_it_goes_on_and_calls_no_tool_twice(make: Make, kill: int) -> None:
    coder = Coder(good=2, says="round {}", kill=kill)
    bench = make(coder)
    repository(bench)
    coder.runner = bench.start("exec", "plan.yaml")
    coder.runner.wait()
    resumed = bench.call("resume", "last", "--json")
    if coder.asked >= kill:
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    shown = json.loads(bench.call("show", "last", "--json").stdout)
    assert shown["status"] == "completed"
    calls = {name: task for name, task in shown["tasks"].items() if "/calls[" in name}
    assert calls and all(task["attempts"] == 1 for task in calls.values())
    assert git(bench.folder, "status", "--short").split() == ["M", "nearest.py", "M", "said.py", "??", "NOTES.md"]
    assert bench.call("replay", "last").returncode == 0
