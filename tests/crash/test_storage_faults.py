"""Kills and disk errors at the system calls that write: nothing acknowledged is lost, nothing unsafe happens twice.

``strace`` injects them into the runner alone. CI takes a sample of the places; ``PLANRUNNER_FAULTS=all`` takes every one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from planrunner import errors

ROOT = Path(__file__).resolve().parents[2]
WRITES = (
    "write pwrite64 writev pwritev fsync fdatasync ftruncate fallocate rename renameat renameat2 unlink unlinkat link"
    " linkat mkdir mkdirat"
).split()
FAILING = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate")
ALL = os.environ.get("PLANRUNNER_FAULTS") == "all"
EVERY = 1 if ALL else 37
FAULTS = [("ENOSPC", True), ("EIO", False), *([("ENOSPC", False), ("EIO", True)] if ALL else [])]
"""An error, and whether the disk stays so."""

CHAIN = """\
plan: chain
defaults: {timeout: 1m}
tasks:
  - {id: first, run: echo first >> order, effect: idempotent}
  - {id: once, needs: [first], run: echo once >> order}
  - {id: last, needs: [once], run: echo last >> order, effect: idempotent}
finally:
  - {id: tidy, run: echo tidy >> order, effect: idempotent}
"""
KEEPS = """\
plan: keeps
defaults: {timeout: 1m}
tasks:
  - id: first
    run: 'echo text > made; echo value=7 >> "$PLANRUNNER_OUTPUT"; echo first >> order'
    effect: idempotent
    outputs: {value: {type: int}}
    artifacts: [{name: made, path: made}]
  - {id: once, needs: [first], run: 'echo once >> order; echo {{ tasks.first.outputs.value }}'}
  - {id: last, needs: [once], uses: files.write, with: {path: written, content: text}}
"""
RETRIES = """\
plan: retries
defaults: {timeout: 1m}
tasks:
  - id: first
    run: 'echo first >> order; [ "$PLANRUNNER_ATTEMPT" = 2 ]'
    effect: idempotent
    retry: {attempts: 2, delay: 10ms}
  - {id: once, run: echo once >> order}
  - {id: last, needs: [first, once], run: echo last >> order, effect: idempotent}
"""
PLANS = {"chain": CHAIN, "keeps": KEEPS, "retries": RETRIES}

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed, so nothing injects")


class Place(NamedTuple):
    """A system call and which one of its kind it is, from 1."""

    call: str
    number: int


class Project:
    """A folder with a plan, in which the runner can be hurt."""

    def __init__(self, folder: Path, plan: str) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "p.yaml").write_text(PLANS[plan])

    def run(self, *words: str, traced: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(self.folder / "state")}
        command = [sys.executable, "-m", "planrunner", *words]
        if traced:
            command = ["strace", "-qqq", *traced, *command]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=50, check=False
        )

    def order(self) -> list[str]:
        path = self.folder / "order"
        return path.read_text().split() if path.exists() else []

    def shown(self) -> dict[str, object]:
        return json.loads(self.run("show", "last", "--json").stdout)  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Bring the run to its end as somebody would who can see what was done."""
        words = ["resume", "last"] if self.run("show", "last").returncode == errors.OK else ["exec", "p.yaml"]
        for _ in range(4):
            ran = self.run(*words)
            if ran.returncode == errors.OK or "has ended" in ran.stderr:
                return
            assert ran.returncode == errors.WAITING, ran.stderr
            words = ["resume", "last", "--settle", f"once={'completed' if 'once' in self.order() else 'retry'}"]
        raise AssertionError("the run does not come to an end")

    def check(self, calm: dict[str, object]) -> None:
        found = self.shown()
        assert found["status"] == "completed"
        assert statuses(found) == statuses(calm)
        assert self.order().count("once") == 1
        assert {"first", "once"} <= set(self.order())
        assert self.run("events", "last").returncode == errors.OK


def statuses(found: dict[str, object]) -> dict[str, str]:
    return {name: task["status"] for name, task in found["tasks"].items()}  # type: ignore[attr-defined]


def places(project: Project) -> list[Place]:
    """Every system call of the set in an undisturbed run, in its order."""
    log = project.folder / "calls"
    ran = project.run("exec", "p.yaml", traced=("-o", str(log), "-e", f"trace={','.join(WRITES)}"))
    assert ran.returncode == errors.OK, ran.stderr
    counts: Counter[str] = Counter()
    found = []
    for name in re.findall(r"^(\w+)\(", log.read_text(), re.MULTILINE):
        counts[name] += 1
        found.append(Place(name, counts[name]))
    return found


@pytest.fixture(params=list(PLANS))
def plan(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.limit(1800)
def test_killed_at_a_system_call_that_writes_a_run_goes_on_without_loss(plan: str, tmp_path: Path) -> None:
    calm = Project(tmp_path / "calm", plan)
    found = places(calm)
    assert len(found) > 40
    for place in found[::EVERY]:
        project = Project(tmp_path / f"{place.call}-{place.number}", plan)
        inject = f"inject={place.call}:signal=KILL:when={place.number}"
        project.run("exec", "p.yaml", traced=("-o", os.devnull, "-e", f"trace={place.call}", "-e", inject))
        project.finish()
        project.check(calm.shown())


@pytest.mark.limit(1800)
@pytest.mark.parametrize(("error", "lasting"), FAULTS)
def test_a_disk_that_fails_parks_the_run_and_a_resume_loses_nothing(
    plan: str, error: str, lasting: bool, tmp_path: Path
) -> None:
    calm = Project(tmp_path / "calm", plan)
    found = [place for place in places(calm) if place.call in FAILING]
    codes: Counter[int] = Counter()
    for place in found[len(found) // 2 % EVERY :: EVERY]:
        project = Project(tmp_path / f"{place.call}-{place.number}", plan)
        inject = f"inject={place.call}:error={error}:when={place.number}{'+' if lasting else ''}"
        ran = project.run("exec", "p.yaml", traced=("-o", os.devnull, "-e", f"trace={place.call}", "-e", inject))
        codes[ran.returncode] += 1
        assert ran.returncode in (errors.OK, errors.FAILED, errors.STORAGE), (place, ran.stderr)
        assert "Traceback" not in ran.stderr
        if ran.returncode == errors.FAILED:  # a task's own file could not be written: that is its failure
            continue
        project.finish()
        project.check(calm.shown())
    assert codes[errors.STORAGE]
