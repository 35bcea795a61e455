"""The whole API under requests made from its own description: no fault, no answer that the description does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Served, make_project, serving

RELEASE = """\
plan: release
title: The plan of the examples
params:
  version: {type: string, default: 1.0.0}
tasks:
  - id: build
    run: echo {{ params.version }}
    timeout: 10s
"""

NAMES = """\
[parameters]
"path.project" = "shop"
"path.run" = "{waits}"
"path.gate" = "sign"
"path.task" = "work"
"path.path" = "plans/asks.yaml"
"""
"""Names that exist, without which every address would be one that is not there."""

EXAMPLES = int(os.environ.get("PLANRUNNER_API_EXAMPLES", "5"))
"""Requests of each kind for each address."""

MEMORY = 600 << 20
"""Bytes that the service may have in memory afterwards."""


def _program() -> str:
    """Where `.ci/programs` has it: in one environment with the tests its plugin for pytest would change hypothesis."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    found = shutil.which("schemathesis", path=f"{cache}/planrunner/schemathesis/bin")
    if found is None:
        pytest.skip("schemathesis is not installed; `.ci/programs` does that")
    return found


def fuzzed(tmp_path: Path, phases: str, examples: int, names: bool = True) -> None:
    """Run schemathesis against a service of its own, and look at the service afterwards. A request that fits the
    description may still name what is not there or ask for what a run does not allow, so it may be refused."""
    folder = make_project(tmp_path / "shop")
    (folder / "plans" / "release.yaml").write_text(RELEASE, encoding="utf-8")
    with serving(folder) as served:
        served.token = served.make_token("fuzz", "--scope", "admin")
        waits, done = served.start("plans/asks.yaml"), served.start("plans/quick.yaml")
        served.settled(waits)
        served.settled(done)
        settings = tmp_path / "schemathesis.toml"
        settings.write_text(NAMES.format(waits=waits, done=done) if names else "", encoding="utf-8")
        words = [_program(), "--config-file", str(settings), "run", f"{served.address}/api/v1/openapi.json"]
        words += [
            "--checks",
            "all",
            "--exclude-checks",
            "positive_data_acceptance",
            "--phases",
            phases,
            "--max-examples",
            str(examples),
            "--generation-deterministic",
        ]
        words += ["--exclude-path-regex", "/(stream|changes)$"]  # what goes on for ever has tests of its own
        words += ["--continue-on-failure", "--request-timeout", "60", "-H", f"Authorization: Bearer {served.token}"]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
        assert served.get("/livez").status == 200
        assert served.run(done)["status"] in ("completed", "rolled_back")
        assert _memory(served) < MEMORY


@pytest.mark.limit(1800)
def test_every_answer_at_names_that_exist_is_one_that_the_description_has(tmp_path: Path) -> None:
    fuzzed(tmp_path, "examples,coverage,fuzzing", EXAMPLES)


@pytest.mark.limit(1800)
def test_every_answer_at_names_from_nowhere_is_one_that_the_description_has(tmp_path: Path) -> None:
    fuzzed(tmp_path, "coverage,fuzzing", EXAMPLES, names=False)


def _memory(served: Served) -> int:
    """Bytes of memory that the service has."""
    for line in Path(f"/proc/{served.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0
