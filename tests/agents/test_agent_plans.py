"""The plans of ``plans/agents``: sound, run by the real command with the model that stands beside them, none by another
program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import sampled
from shown import check_output
from workbench import ROOT, planrunner

pytestmark = pytest.mark.slow

Json = Any

PLANS = ROOT / "plans" / "agents"
NAMES = sorted(path.name for path in PLANS.glob("*.yaml") if path.name != "planrunner.yaml")
OTHERS = re.compile(r"\b(claude|codex|gemini|aider|opencode|copilot|llm|ollama|python|node|npx)\b")
"""Programs that would do the work of an agent, or call one."""

MEDIAN = (
    ("median.py", "def median(numbers):\n    return 0\n"),
    ("check.py", "from median import median\n\nassert median([3, 1, 2]) == 2\n"),
)
"""What `candidates.yaml` mends."""


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, str(PLANS / "peers" / "model.py"), "0"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    yield server.stdout.readline().split()[-1]
    server.kill()
    server.wait()


@pytest.fixture
def folder(tmp_path: Path, model: str) -> Path:
    """The plans in a repository of their own, with the model at its address."""
    shutil.copytree(PLANS, tmp_path / "plans")
    project = tmp_path / "plans"
    settings = (project / "planrunner.yaml").read_text().replace("http://127.0.0.1:4020", model)
    settings = settings.replace("127.0.0.1:4020", model.removeprefix("http://")).replace("python3", sys.executable)
    (project / "planrunner.yaml").write_text(settings)
    (project / "README.md").write_text("At most 3 files.\n")
    for name, text in (("schema.sql", ""), ("test_it.py", "def test_it(): pass\n"), *MEDIAN):
        (project / name).write_text(text)
    (project / ".gitignore").write_text(".planrunner\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    return project


def test_all_are_sound() -> None:
    done = planrunner(ROOT, "lint", "plans/agents", "--format", "json")
    found = json.loads(done.stdout)["findings"]
    assert {finding["code"] for finding in found} <= {"PLAN701"}, done.stdout


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_it_ends_well_and_replays(name: str, folder: Path) -> None:
    runs = re.findall(r"\brun: *(.+)", (folder / name).read_text())
    assert not [
        run for run in runs if OTHERS.search(run.replace("python -m pytest", "").replace("python check.py", ""))
    ]
    done = planrunner(folder, "exec", name, "--json")
    check_output(f"agents/{name}", done.stderr, done.returncode, folder)
    while done.returncode == 8:
        decide(folder)
        done = planrunner(folder, "resume", "last", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    replayed = planrunner(folder, "replay", "last")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def decide(folder: Path) -> None:
    """Answer every gate as a friendly person would: the first option, a form filled, yes."""
    for gate in json.loads(planrunner(folder, "gates", "--json").stdout)["gates"]:
        fields = [part for field in gate["form"] for part in ("-f", f"{field['name']}={_value(field)}")]
        options = [gate["options"][0]["name"]] if gate["options"] else []
        if fields or options:
            done = planrunner(folder, "answer", "last", gate["gate"], *options, *fields)
        else:
            done = planrunner(folder, "approve", "last", gate["gate"])
        assert done.returncode == 0, done.stderr


def _value(field: Json) -> str:
    return "3" if field.get("type") in ("int", "number") else "three"
