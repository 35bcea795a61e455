"""Plans made as costly as their size allows are judged within the bounds: 5 s of the processor for up to 1 MiB, 30 s
for 8 MiB, 512 MiB of memory.

128 KiB of each shape here, with their share of the memory. Their 2 s are given 30, so that no slow machine decides: what
grows with the square takes minutes. `PLANRUNNER_LINT_SIZE` (bytes) makes them larger in the nightly proofs.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
import time
from pathlib import Path

import pytest
from worst_cases import SHAPES

from planrunner.plan.files import MAX_TASKS
from planrunner.plan.load import too_many
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping

MIB = 1 << 20
SIZE = int(os.environ.get("PLANRUNNER_LINT_SIZE", str(MIB // 8)))
SECONDS = 5.0 if MIB // 8 < SIZE <= MIB else 30.0
MEMORY = 512 * MIB if SIZE > MIB else 64 * MIB + 448 * SIZE
"""Bytes that the process has at most."""


def measured(*words: str) -> tuple[int, float, int]:
    """The exit code of a call (or minus the signal that ended it), its seconds of the processor, its bytes."""
    child = os.fork()
    if not child:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(os.open("messages", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (120, 120))  # what has no bound at all ends too
            os.execv(sys.executable, [sys.executable, "-m", "planrunner", *words])
        finally:
            os._exit(127)
    memory = 0
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        memory = max(memory, peak(child))
        time.sleep(0.002)
    _, status, used = ended
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, memory


def peak(pid: int) -> int:
    """The most bytes that a process has held since it was executed; what ``wait4`` tells counts those of whoever forked
    it as well."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/cmdline", "rb") as words,
        open(f"/proc/{pid}/status") as status,
    ):
        executed = b"\0planrunner\0" in words.read()  # first: it may be executed in between
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
        return int(found[1]) * 1024 if found and executed else 0
    return 0


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a child is counted in other units")
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_of_the_worst_shape_is_judged_within_the_bounds(
    shape: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, make = SHAPES[shape]
    if form == "json" and shape not in _MANY_FINDINGS:
        pytest.skip("it has few findings, which cost the same in any form")
    content = make(SIZE).encode()
    assert len(content) <= SIZE
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    code, seconds, memory = measured("lint", "--format", form, name)
    assert code in (0, 1), (tmp_path / "messages").read_text()
    assert seconds < SECONDS
    assert memory < MEMORY


_MANY_FINDINGS = (
    *("tasks that run", "the same id", "parameters", "duplicate keys", "odd conditions", "empty lists"),
    *("template products", "references"),
)


def test_too_many_tasks_are_refused_before_one_is_looked_at() -> None:
    text = "plan: p\ntasks:\n  - &x {id: a, loop: {max: 2, tasks: [" + "{}," * MAX_TASKS + "]}}\n"
    tree = parse(Source(text, "x", "yaml")).tree
    assert isinstance(tree, Mapping)
    found = too_many(tree, len(text))
    assert found is not None and found.code == "PLAN011" and "100,000 tasks" in found.message
    assert too_many(tree, 1000) is None, "a short text is not counted through"
    fewer = parse(Source(text.replace("{},", "", 2), "x", "yaml")).tree
    assert isinstance(fewer, Mapping) and too_many(fewer, len(text)) is None
