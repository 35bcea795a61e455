"""Whole runs whose tasks are shut in, through the command line."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandbox_project import needs_bubblewrap
from workbench import ROOT, planrunner

from planrunner.safety.sandbox.presence import INSIDE

pytestmark = needs_bubblewrap

PLAN = """
plan: p
defaults: {timeout: 1m}
policy: {sandbox: true}
tasks:
  - id: t
    run: %s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(PLAN % "cat .planrunner/journal.db || id -u")
    return tmp_path


def test_a_policy_shuts_the_tasks_of_a_run_in(folder: Path) -> None:
    assert planrunner(folder, "exec", "p.yaml", "--progress", "quiet").returncode == 0
    assert planrunner(folder, "logs", "last", "t").stdout.splitlines()[-1] == "65534"


def test_what_every_confined_task_waits_for_imports_little() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", INSIDE, "", "--"], capture_output=True, text=True, check=False
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "ctypes" in imported
    assert not imported & {"json", "re", "typing", "socket"}


def test_a_plan_from_outside_is_shut_in_though_somebody_trusts_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "planrunner.yaml").touch()
    (tmp_path / "p.yaml").write_text(PLAN.replace("policy: {sandbox: true}", "policy: {sandbox: none}") % "id -u")
    refused = planrunner(project, "exec", "../p.yaml")
    assert refused.returncode == 12, refused
    digest = next(word for word in refused.stderr.split() if word.startswith("sha256:"))
    assert planrunner(project, "exec", "../p.yaml", "--trust", digest, "--progress", "quiet").returncode == 0
    assert planrunner(project, "logs", "last", "t").stdout.splitlines()[-1] == "65534"


def test_the_doctor_names_what_shuts_processes_in(folder: Path) -> None:
    checks = json.loads(planrunner(folder, "doctor", "--json").stdout)["checks"]
    found = next(check for check in checks if check["name"] == "sandbox")
    assert found["verdict"] == "ok" and found["found"].startswith("bubblewrap")


def test_a_limit_that_is_passed_is_an_event_with_its_rule(folder: Path) -> None:
    (folder / "p.yaml").write_text(PLAN.replace("sandbox: true", "sandbox: {output: 1MB}") % "yes")
    assert planrunner(folder, "exec", "p.yaml", "--progress", "quiet").returncode == 12
    said = planrunner(folder, "events", "last", "--type", "attempt_ended", "--json").stdout
    assert '"sandbox.output"' in said
    (folder / "p.yaml").write_text(PLAN % "echo on")
    assert planrunner(folder, "exec", "p.yaml", "--progress", "quiet").returncode == 0


def test_the_sandbox_is_not_taken_away_by_a_program(folder: Path) -> None:
    done = planrunner(folder, "exec", "p.yaml", "--no-sandbox")
    assert done.returncode == 12 and "works only at a terminal" in done.stderr
    assert not (folder / ".planrunner").exists()


def at_a_terminal(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "planrunner", *arguments, "--progress", "quiet", "--no-wait", "--json"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=slave, capture_output=True, timeout=240,
        check=False,
    )  # fmt: skip
    os.close(slave)
    os.close(master)
    return done


def test_a_person_at_a_terminal_takes_the_sandbox_away_and_that_is_recorded(folder: Path) -> None:
    done = at_a_terminal(folder, "exec", "p.yaml", "--no-sandbox")
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "completed"
    began = planrunner(folder, "events", "last", "--type", "run_started", "--json").stdout
    assert "SQLite format" in planrunner(folder, "logs", "last", "t").stdout
    assert '"sandbox":{"off":true' in began.replace(" ", ""), began


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_goes_on_is_shut_in_unless_a_person_says_so_again(folder: Path, again: bool) -> None:
    waiting = "  - {id: g, needs: [t], gate: approval, ask: Go on}\n  - {id: u, needs: [g], run: id -u}\n"
    (folder / "p.yaml").write_text(PLAN % "id -u" + waiting)
    assert at_a_terminal(folder, "exec", "p.yaml", "--no-sandbox").returncode == 8
    assert planrunner(folder, "approve", "last", "g").returncode == 0
    done = at_a_terminal(folder, "resume", "last", *(["--no-sandbox"] if again else []))
    assert done.returncode == 0, done.stderr
    uid = str(os.getuid()) if again else "65534"
    assert planrunner(folder, "logs", "last", "u").stdout.splitlines()[-1] == uid
    resumed = planrunner(folder, "events", "last", "--type", "run_resumed", "--json").stdout
    assert ('"unconfined":true' in resumed.replace(" ", "")) == again


@pytest.mark.parametrize("way", ["env", "file", "fd"])
def test_a_secret_of_the_task_comes_in_and_no_other(folder: Path, way: str) -> None:
    (folder / "planrunner.yaml").write_text(
        "provider_credentials:\n"
        "  - {id: ours, auth: {source: env, env_var: OUR_KEY}}\n"
        "  - {id: theirs, auth: {source: env, env_var: THEIR_KEY}}\n"
    )
    read = 'printf %s "$K"' if way == "env" else 'cat "$K"'
    script = f"{read} | sha256sum > got; env > seen"
    secrets = f"    secrets: {{K: {{id: ours, as: {way}}}}}\n"
    (folder / "p.yaml").write_text(PLAN % json.dumps(script) + secrets)
    done = planrunner(folder, "exec", "p.yaml", OUR_KEY="open-sesame-1", THEIR_KEY="open-sesame-2")
    assert done.returncode == 0, done.stderr
    expected = subprocess.run(["sha256sum"], input="open-sesame-1", capture_output=True, text=True, check=True).stdout
    assert (folder / "got").read_text() == expected
    assert "open-sesame-2" not in (folder / "seen").read_text()


def test_nothing_of_a_sandbox_outlives_an_engine_that_is_killed(folder: Path) -> None:
    (folder / "p.yaml").write_text(PLAN % "touch began; setsid -f sleep 300; sleep 300")
    command = [sys.executable, "-m", "planrunner", "exec", "p.yaml", "--progress", "quiet"]
    engine = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL
    )
    until = time.monotonic() + 240
    while not (folder / "began").exists():
        assert time.monotonic() < until and engine.poll() is None
        time.sleep(0.02)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    until = time.monotonic() + 240
    while left := _working_in(folder):
        assert time.monotonic() < until, left
        time.sleep(0.02)


def _working_in(folder: Path) -> list[str]:
    """Living processes of the tasks of runs there."""
    marker, found = f"PLANRUNNER_USAGE={folder}/".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found
