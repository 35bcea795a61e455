"""Tasks that behave as badly as processes can, all at once: whichever way the run goes, nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from workbench import ROOT

from planrunner import errors

FLOOD = int(os.environ.get("PLANRUNNER_FLOOD", "200000000"))
"""Bytes that one task prints; the figure of the promise is 1000000000."""

UNTIL_ADOPTED = (
    'until test "$(cat adopter 2>&-)" = $PPID; do'
    " (sh -c 'sleep 0.02; read -r a b c parent rest </proc/$$/stat; echo $parent >adopter' &); sleep 0.05; done"
)
"""Leaves orphans until the runner, the parent of the shell, is the one that they are handed to."""

SHAPES = {
    "floods": f"head -c {FLOOD} /dev/zero",
    "forks_daemons": "setsid -f sh -c 'trap \"\" TERM HUP; sleep TOKEN'; (setsid sleep TOKEN & ) & echo forked",
    # within its first 30 ms a runner takes no orphans in: a daemon so quick that leaves no trace at all is not found
    "sheds_variables": UNTIL_ADOPTED
    + '; setsid -f env -i PATH="$PATH" sh -c \'trap "" TERM; sleep TOKEN\' >&- 2>&- <&-',
    "ignores_term": "trap '' TERM INT HUP; sleep TOKEN & echo deaf",
    "closes_stdout": "exec >&- 2>&-; sleep TOKEN & true",
    "holds_the_pipe": "sleep TOKEN & echo held",
    "has_a_stopped_child": "sh -c 'kill -STOP $$; sleep TOKEN' & echo stopped",
}
STAYS = "; while :; do sleep 0.1; done"


class Zoo:
    """A plan with a task of each shape, and a number by which its sleepers are known whatever they shed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"9{uuid.uuid4().int % 10**8:08d}"

    def write(self, stays: bool, timeout: str) -> None:
        tasks = [
            {
                "id": name,
                "run": f"echo {name} >> begun\n" + script.replace("TOKEN", self.token) + (STAYS if stays else ""),
                "timeout": timeout,
                "on_doubt": "fail",
            }
            for name, script in SHAPES.items()
        ]
        document = {"plan": "zoo", "max_parallel": 20, "on_failure": "continue", "tasks": tasks}
        (self.folder / "p.json").write_text(json.dumps(document))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(self.folder / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "planrunner", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ended(self, process: subprocess.Popen[bytes]) -> tuple[int, int]:
        """Exit code and peak memory in bytes: that of the program alone, since what the system counts for a child
        begins with the memory of the process that forked it."""
        peak = 0
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                continue
            found = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
            peak = max([peak, *found])
            time.sleep(0.02)
        return process.returncode, peak * 1024

    def until_all_began(self) -> None:
        end = time.monotonic() + 240
        begun = self.folder / "begun"
        while not begun.exists() or len(begun.read_text().split()) < len(SHAPES):
            assert time.monotonic() < end, "not every task began"
            time.sleep(0.02)

    def shown(self) -> dict[str, Any]:
        return json.loads(self.start("show", "last", "--json").communicate(timeout=240)[0])  # type: ignore[no-any-return]

    def left(self, but: tuple[str, ...] = ()) -> list[str]:
        """Command lines of what still lives."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                variables = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if self.token in line and not any(task.encode() in variables for task in but):
                found.append(line)
        return found

    def gone(self, but_for: int = 0) -> None:
        end = time.monotonic() + 240
        while len(left := self.left()) > but_for and time.monotonic() < end:
            time.sleep(0.02)
        assert len(left) <= but_for, left


@pytest.fixture
def zoo(tmp_path: Path) -> Any:
    found = Zoo(tmp_path)
    yield found
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if found.token.encode() in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue


def statuses(found: dict[str, Any]) -> set[str]:
    return {task["status"] for task in found["tasks"].values()}


BOUND = 96 << 20
"""Bytes of memory that the runner may take, whatever tasks print."""


def test_what_a_task_leaves_behind_when_it_ends_is_ended(zoo: Zoo) -> None:
    zoo.write(stays=False, timeout="10m")
    code, memory = zoo.ended(zoo.start("exec", "p.json"))
    assert code == errors.OK
    assert memory < BOUND
    zoo.gone(but_for=2)  # only a daemon that shed the variables of the run outlives a task that ended well
    logs = sum(path.stat().st_size for path in (zoo.folder / "state" / "logs").rglob("*") if path.is_file())
    assert logs < 65 << 20


def test_at_the_timeout_nothing_of_a_task_is_left(zoo: Zoo) -> None:
    zoo.write(stays=True, timeout="2s")
    code, memory = zoo.ended(zoo.start("exec", "p.json"))
    assert code == errors.FAILED
    assert memory < BOUND
    assert statuses(zoo.shown()) == {"failed"}
    zoo.gone()


@pytest.mark.parametrize("words", [(), ("--now",)], ids=["in-order", "at-once"])
def test_a_cancelled_run_leaves_nothing(zoo: Zoo, words: tuple[str, ...]) -> None:
    zoo.write(stays=True, timeout="10m")
    going = zoo.start("exec", "p.json")
    zoo.until_all_began()
    time.sleep(0.6)
    assert zoo.ended(zoo.start("cancel", "last", *words))[0] == errors.OK
    code, memory = zoo.ended(going)
    assert code == errors.FAILED
    assert memory < BOUND
    assert statuses(zoo.shown()) == {"cancelled"}
    zoo.gone()


def test_after_a_kill_of_the_runner_the_resume_leaves_nothing_that_carries_its_run(zoo: Zoo) -> None:
    """What shed the variables and lost its parent cannot be told from a stranger's process: it is let alone."""
    zoo.write(stays=True, timeout="10m")
    going = zoo.start("exec", "p.json")
    zoo.until_all_began()
    time.sleep(0.3)
    going.kill()
    going.wait(240)
    code, memory = zoo.ended(zoo.start("resume", "last"))
    assert code == errors.FAILED
    assert memory < BOUND
    assert statuses(zoo.shown()) == {"failed"}
    zoo.gone(but_for=2)
