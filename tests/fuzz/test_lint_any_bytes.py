"""Whatever the bytes of a plan, lint ends soon with a verdict, and the start of `exec` has the same one.

2,500 mutated plans here, `PLANRUNNER_HOSTILE_PLANS` of them in the nightly proofs; `PLANRUNNER_HOSTILE_SEED` gives
others. A plan that broke a promise is kept in `found/` and linted first ever after.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import mutations
import pytest

HERE = Path(__file__).parent
PLANS = int(os.environ.get("PLANRUNNER_HOSTILE_PLANS", "1600"))
SEED = int(os.environ.get("PLANRUNNER_HOSTILE_SEED", "1"))
STUCK = 600.0
"""Seconds without a plan done, after which a process counts as stuck: the bound on each plan is five of the processor."""


def start(folder: Path, first: int, step: int) -> subprocess.Popen[str]:
    folder.mkdir()
    with (folder / "out").open("w") as out:
        return subprocess.Popen(
            [sys.executable, str(HERE / "linting_many.py"), *map(str, (SEED, first, step, PLANS)), str(folder)],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(mutations.ROOT), "PYTHONHASHSEED": "0"},
            text=True,
        )


def wait(process: subprocess.Popen[str], folder: Path) -> str:
    """What a process found, with the plan that it died of or got stuck in."""
    at, since = "", time.monotonic()
    while process.poll() is None:
        time.sleep(0.1)
        now = (folder / "at").read_text() if (folder / "at").exists() else ""
        if now != at:
            at, since = now, time.monotonic()
        elif time.monotonic() - since > STUCK:
            process.kill()
            process.wait()
            return f"plan {at} never ends\n" + (folder / "out").read_text()
    said = (folder / "out").read_text()
    return said if process.returncode == 0 else f"plan {at} ends the process: {process.returncode}\n{said}"


@pytest.mark.slow
@pytest.mark.limit(1800)
def test_lint_ends_with_a_verdict_for_any_bytes_and_exec_has_the_same(tmp_path: Path) -> None:
    workers = min(4, len(os.sched_getaffinity(0)))
    folders = [tmp_path / str(first) for first in range(workers)]
    processes = [start(folder, first, workers) for first, folder in enumerate(folders)]
    try:
        broken = "".join(wait(process, folder) for process, folder in zip(processes, folders, strict=True))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not broken, f"seed {SEED}, keep it with `python tests/fuzz/keep.py {SEED} NUMBER`:\n{broken[:5000]}"
    shutil.rmtree(tmp_path)


def test_the_seed_and_the_number_give_the_plan() -> None:
    made = [mutations.plan(7, number) for number in range(60)]
    assert made == [mutations.plan(7, number) for number in range(60)]
    assert len(set(made)) > 55
    assert {name.rpartition(".")[2] for name, _ in made} == {"yaml", "plan", "json"}


def test_mutated_plans_reach_every_part_of_lint() -> None:
    """Plans that all fail at the first line would prove little: rules of every group speak, and some plans are sound."""
    from planrunner.plan.load import load
    from planrunner.plugins.registry import Registry
    from planrunner.source import Source
    from planrunner.syntax.notations import decode

    codes: set[str] = set()
    sound = 0
    for number in range(600):
        source, findings = decode(*reversed(mutations.plan(11, number)))
        loaded = load(source, Registry(plugins=False)) if isinstance(source, Source) else None
        findings = findings if loaded is None else loaded.findings
        sound += loaded is not None and loaded.plan is not None
        codes |= {finding.code for finding in findings}
    assert sound > 10
    assert len(codes) > 30, sorted(codes)
    assert {code[:5] for code in codes} >= {"PLAN0", "PLAN1", "PLAN2", "PLAN5", "PLAN6", "PLAN7"}


@pytest.mark.parametrize("path", sorted((HERE / "found").glob("*")), ids=lambda path: path.name)
def test_a_plan_that_once_broke_a_promise_keeps_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import linting_many

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".planrunner").mkdir()
    shutil.copy(path, tmp_path / path.name)
    assert linting_many.judged(path.name, mended=True) == ""
