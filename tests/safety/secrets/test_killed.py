"""A runner that is killed at any moment leaves no secret behind: neither in its state directory nor among what it writes
elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import commands
import pytest
from workbench import ROOT

from planrunner.fileio import give_name, unnamed
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.redaction import Redactor, spellings

SECRET = "cny-7Qz/91+L=mX04r Vd2&<\"k'"

KEEPS = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from planrunner.knowledge import artifacts
from planrunner.redaction import Redactor

redactor = Redactor()
redactor.add("token", os.environ["SECRET"].encode())
store, last, count = artifacts.ArtifactStore(sys.argv[2], redactor), int(sys.argv[3]), 0

def step(frame, event, argument):
    global count
    if frame.f_code.co_filename.endswith(("artifacts.py", "cleaning.py", "unnamed.py")):
        count += event == "line"
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return step
    return None

sys.settrace(step)
store.keep(sys.argv[4])
sys.settrace(None)
print(count)
"""


def encodings() -> list[bytes]:
    return sorted(spellings(SECRET.encode()))


def left(*places: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}


def leaks(*places: Path) -> list[tuple[str, bytes]]:
    return [(where, each) for where, data in left(*places).items() for each in encodings() if each in data]


def keep(tmp_path: Path, line: int, told: Path) -> subprocess.CompletedProcess[str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "SECRET": SECRET, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", KEEPS, str(ROOT), str(tmp_path / "state"), str(line), str(told)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)


def test_an_artifact_that_is_being_kept_when_its_runner_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_bytes(b"\n".join(encodings()))
    (tmp_path / "state").mkdir()
    whole = keep(tmp_path, -1, told)
    lines = int(whole.stdout)
    assert lines > 60, whole.stderr
    kept = left(tmp_path / "state")
    assert any(b"[secret:token]" in data for data in kept.values())
    for line in range(1, lines, max(1, lines // 40)):
        for path in sorted((tmp_path / "state").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        assert keep(tmp_path, line, told).returncode == -signal.SIGKILL
        assert not leaks(tmp_path / "state", tmp_path / "tmp"), line


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_file_gets_its_name_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_unnamed: bool
) -> None:
    if not has_unnamed:
        monkeypatch.setattr(os, "O_TMPFILE", 0o20000000)  # the bits without O_DIRECTORY: what old systems make of it
    made = unnamed(str(tmp_path))
    os.write(made, b"some bytes")
    assert list(tmp_path.iterdir()) == []
    os.fchmod(made, 0o444)
    give_name(made, str(tmp_path / "it"))
    os.close(made)
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    assert (tmp_path / "it").read_bytes() == b"some bytes"
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o444


def test_an_open_file_is_kept_from_its_beginning_on_without_the_secret(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.add("token", SECRET.encode())
    store = ArtifactStore(str(tmp_path), redactor)
    descriptor = unnamed(str(tmp_path))
    os.write(descriptor, f"it is {SECRET}\n".encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    assert store.read(str(store.keep_open(descriptor)["sha256"])) == b"it is [secret:token]\n"
    os.close(descriptor)


PROJECT = """
provider_credentials: [{id: token, auth: {source: env, env_var: TOKEN}}]
"""

PLAN = r"""
plan: killed
defaults: {timeout: 50s}
tasks:
  - id: writes
    effect: idempotent
    secrets: [token]
    run: |
      printf 'plain=%s\n' "$TOKEN" > "$PLANRUNNER_OUTPUT"
      printf 'coded=%s\n' "$(printf %s "$TOKEN" | base64 -w 0)" >> "$PLANRUNNER_OUTPUT"
      python3 -c "import subprocess; subprocess.run(['sh', '-c', 'echo inner=1 >> $PLANRUNNER_OUTPUT'])"
      echo "$TOKEN"
      test -e once.1 || { touch once.1; kill -9 $PPID; sleep 30; }
    outputs: {plain: string, coded: string, inner: string}
  - id: reads
    needs: [writes]
    effect: idempotent
    secrets: {FILE: {id: token, as: file}, VALUE: token}
    run: |
      test "$(cat "$FILE")" = "$VALUE"
      python3 -c "import os, sys; sys.exit(open(os.environ['FILE']).read() != os.environ['VALUE'])"
      test -e once.2 || { touch once.2; kill -9 $PPID; sleep 30; }
  - id: returns
    needs: [reads]
    effect: idempotent
    secrets: [token]
    uses: python.run
    with:
      code: |
        import atexit, os, signal
        result = {"it": os.environ["TOKEN"]}
        if not os.path.exists("once.3"):
            open("once.3", "w").close()
            atexit.register(os.kill, os.getppid(), signal.SIGKILL)
  - id: keeps
    needs: [returns]
    effect: idempotent
    secrets: [token]
    run: printf %s "$TOKEN" | base64 > kept; test -e once.4 || { touch once.4; kill -9 $PPID; sleep 30; }
    artifacts: [kept]
"""


@pytest.mark.limit(180)
def test_what_processes_told_when_their_runner_is_killed_and_the_run_that_goes_on(tmp_path: Path) -> None:
    project, temporary, state = tmp_path / "project", tmp_path / "tmp", tmp_path / "state"
    project.mkdir()
    temporary.mkdir()
    (project / "planrunner.yaml").write_text(PROJECT)
    (project / "killed.yaml").write_text(PLAN)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(state), "TMPDIR": str(temporary)}
    env["TOKEN"] = SECRET

    def planrunner(*words: str) -> commands.Ran:
        return commands.run(*words, folder=project, env=env)

    said = ""
    for number in range(1, 6):
        done = planrunner(*(("exec", "killed.yaml") if number == 1 else ("resume", "last")))
        said += done.out + done.err
        assert done.code == (-signal.SIGKILL if number < 5 else 0), said
        assert not leaks(state, temporary), number
    shown = json.loads(planrunner("show", "last", "--json").out)["tasks"]
    assert shown["writes"]["outputs"] == {"plain": "[secret:token]", "coded": "[secret:token]", "inner": "1"}
    assert shown["returns"]["outputs"] == {"it": "[secret:token]"}
