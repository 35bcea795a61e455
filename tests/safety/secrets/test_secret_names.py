"""Secrets in names of files, in what links lead to and in parameters: none is kept, and nothing stops without a word."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import workbench

SECRET = "tok-under-test-1"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    credential = "provider_credentials:\n  - {id: token, auth: {source: env, env_var: TOKEN}}\n"
    (tmp_path / "planrunner.yaml").write_text(credential)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "plain.txt").write_text("plain")
    return tmp_path


def does(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(project, *words, TOKEN=SECRET)


def plan(project: Path, **task: Any) -> str:
    whole = {"id": "a", "secrets": ["token"], "run": "touch d/new", "timeout": "1m", **task}
    params = {"word": {"type": "string", "default": "hello"}}
    (project / "p.json").write_text(json.dumps({"plan": "p", "params": params, "tasks": [whole]}))
    return "p.json"


def kept(project: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (project / ".planrunner").rglob("*") if path.is_file())


def named(project: Path, way: str) -> None:
    if way == "name":
        (project / "d" / f"{SECRET}.txt").write_text("x")
    else:
        (project / "d" / "link").symlink_to(SECRET)


@pytest.mark.parametrize("way", ["name", "target"])
def test_what_cannot_be_saved_without_a_secret_is_refused_by_name(project: Path, way: str) -> None:
    named(project, way)
    done = does(project, "exec", plan(project, backup=["d/*"]))
    assert done.returncode == 1 and f"its {way} holds a secret" in done.stderr, done.stderr
    assert not (project / "d" / "new").exists()
    assert SECRET.encode() not in kept(project) and SECRET not in done.stderr


@pytest.mark.parametrize(
    ("way", "said"), [("name", "[secret:token].txt holds a secret"), ("target", "d/link cannot be")]
)
def test_a_checkpoint_leaves_out_what_it_cannot_keep_and_says_so(project: Path, way: str, said: str) -> None:
    named(project, way)
    done = does(project, "exec", plan(project, checkpoint={"paths": ["d"]}))
    assert done.returncode == 0, done.stderr
    (row,) = [json.loads(each) for each in does(project, "events", "last", "--json", "--type", "checkpoint_taken").stdout.splitlines()][1:]  # fmt: skip
    assert said in row["problem"]
    assert SECRET.encode() not in kept(project)


def test_a_parameter_that_holds_a_secret_is_refused_before_the_run(project: Path) -> None:
    done = does(project, "exec", plan(project), "-p", f"word=a-{SECRET}-b")
    assert done.returncode == 2 and "the parameter `word` holds a secret" in done.stderr
    assert "secrets: [ID]" in done.stderr and SECRET not in done.stderr
    assert SECRET.encode() not in kept(project) and not (project / "d" / "new").exists()


def test_other_parameters_pass(project: Path) -> None:
    assert does(project, "exec", plan(project), "-p", "word=fine").returncode == 0
