"""Everything malformed in the corpora through the command line: findings with a place, the documented exit code, no
traceback, and soon."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent.parent / "corpus"
FILES = sorted(
    path
    for folder in ("malformed", "err")
    for path in (CORPUS / folder).iterdir()
    if path.suffix in (".yaml", ".yml", ".json", ".plan")
)
PLACE = re.compile(r":(\d+):(\d+): error\[PLAN\d{3}\] \S")


def lint(*words: str, cwd: Path) -> tuple[int, str, str, float]:
    """Exit code, both outputs and the seconds of processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "planrunner", *words],
        cwd=cwd, capture_output=True, text=True, errors="replace", timeout=240, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done.returncode, done.stdout, done.stderr, seconds


def test_there_are_more_than_a_hundred() -> None:
    assert len(FILES) > 100


def test_every_malformed_file_has_findings_with_places(tmp_path: Path) -> None:
    code, out, err, _ = lint("lint", "--format", "concise", *map(str, FILES), cwd=tmp_path)
    assert code == 1
    assert "Traceback" not in out + err
    for path in FILES:
        lines = [line for line in out.splitlines() if path.name in line and PLACE.search(line)]
        assert lines, path.name


HUGE = {
    "brackets.yaml": b"[" * 100_000,
    "binary.yaml": bytes(range(256)) * 40,
    "empty.yaml": b"",
    "eight_mib.yaml": b"plan: p\ntasks:\n" + b"".join(b"  - {id: t%d, run: x}\n" % n for n in range(400_000)),
    "bomb.yaml": b"a: &a [x, x, x, x, x, x, x, x, x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b", ".join([b"*%c" % (97 + n)] * 9)) for n in range(12)),
    "tabs.yaml": b"plan: p\ntasks:\n\t- id: a\n",
    "utf16.yaml": "plan: p\n".encode("utf-16"),
    "cut.json": b'{"plan": "p", "tasks": [{"id": "a"',
    "control.plan": b"task a\n  run: echo \x07\x00\n",
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_and_hostile_files_are_refused_within_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(HUGE[name])
    code, out, err, seconds = lint("lint", "--format", "concise", name, cwd=tmp_path)
    assert code == 1
    assert PLACE.search(out), out[:300]
    assert "Traceback" not in out + err
    code, out, err, more = lint("exec", name, cwd=tmp_path)
    assert code == 5
    assert "Traceback" not in out + err
    assert seconds < 20  # five on a machine that does nothing else
    assert more < 20
