"""Many runs at once in one process: no effect of one upon another, stopping, resuming, a kill of the process."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from planrunner.app.history.show import look
from planrunner.app.runs.execute import ExecRequest, Silent
from planrunner.app.runs.host import Host
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import NotFound, UsageError
from planrunner.machine.events import AttemptStarted, Entry

PLAN = """
plan: numbers
params: {n: {type: int}}
tasks:
  - id: write
    run: "echo {{ params.n }} > out-{{ params.n }}; echo said {{ params.n }}"
    timeout: 30m
    effect: idempotent
  - id: read
    needs: [write]
    run: "cat out-{{ params.n }}"
    timeout: 30m
    effect: pure
outputs: {said: "{{ tasks.read.stdout }}"}
"""

WAITS = """
plan: waits
params: {n: {type: int}}
tasks:
  - id: before
    run: "echo {{ params.n }} >> before"
    timeout: 30m
  - id: wait
    needs: [before]
    run: "echo {{ params.n }} >> waiting; read line < go"
    timeout: 30m
    effect: pure
  - id: after
    needs: [wait]
    run: "echo {{ params.n }} >> after"
    timeout: 30m
"""


class Project(NamedTuple):
    """A project whose runs of `waits.yaml` wait until `go` lets them pass."""

    folder: Path
    gate: int

    def go(self, count: int) -> None:
        os.write(self.gate, b"\n" * count)

    @property
    def state(self) -> str:
        return str(self.folder / ".planrunner")

    def lines(self, name: str) -> list[int]:
        return sorted(int(line) for line in (self.folder / name).read_text().split())


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = make_project(tmp_path / "project")
    yield made
    os.close(made.gate)


def make_project(folder: Path, settings: str = "") -> Project:
    folder.mkdir()
    (folder / "planrunner.yaml").write_text(settings)
    (folder / "numbers.yaml").write_text(PLAN)
    (folder / "waits.yaml").write_text(WAITS)
    os.mkfifo(folder / "go")
    return Project(folder, os.open(folder / "go", os.O_RDWR))


@pytest.fixture
def limits() -> Iterator[None]:
    """A host may raise what the process may open; it is as before after the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def request(folder: Path, plan: str, number: int) -> ExecRequest:
    return ExecRequest(str(folder / plan), (("n", number),), unattended=True, vouched=True)


class Waiting(Silent):
    """Knows when the task `wait` of a run has begun."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    def event(self, entry: Entry) -> None:
        if isinstance(entry.event, AttemptStarted) and entry.event.task == "wait":
            self.reached.set()


@pytest.mark.usefixtures("limits")
def test_two_hundred_runs_at_once_do_their_own_work_alone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them are in the middle at the same moment; what they take of the machine is printed."""
    count = 200
    watches = [Waiting() for _ in range(count)]
    memory = resident()
    with Host(count) as host:
        runs = [host.start(request(project.folder, "waits.yaml", n), watch) for n, watch in enumerate(watches)]
        for watch in watches:
            assert watch.reached.wait()
        threads, files, grown = threading.active_count(), len(os.listdir("/proc/self/fd")), resident() - memory
        assert len(host.runs) == count
        with pytest.raises(UsageError, match="acts on 200 runs at once"):
            host.start(request(project.folder, "waits.yaml", count))
        project.go(count)
        results = [run.result() for run in runs]
    assert [result.status for result in results] == ["completed"] * count
    assert len({result.run_id for result in results}) == count
    assert project.lines("before") == project.lines("waiting") == project.lines("after") == list(range(count))
    assert files < count * 20
    with capsys.disabled():
        print(f"\n{count} runs at once: {grown >> 20} MiB more, {threads} threads, {files} descriptors")


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_each_run_acts_for_its_own_principal_in_its_own_workspace(tmp_path: Path) -> None:
    """Two projects with profiles of their own and two people, in turn from one thread and going on side by side."""
    settings = "profiles: {fast: {policy: {network: {allow: [example.org]}}}, slow: {policy: {network: {allow: [example.com]}}}}\n"
    projects = [make_project(tmp_path / name, settings) for name in ("one", "two")]
    people = [Principal("ada", ("operator",), "token"), Principal("bob")]
    watches = [Waiting(), Waiting()]
    with Host() as host:
        runs = []
        for project, who, profile, watch in zip(projects, people, ("fast", "slow"), watches):
            with acting(who, Workspace(str(project.folder), profile=profile)):
                runs.append(host.start(request(project.folder, "waits.yaml", 1), watch))
        for watch in watches:
            assert watch.reached.wait()
        for project in projects:
            project.go(1)
        results = [run.result() for run in runs]
    told = [result.state.environment for result in results]
    assert [each["user"] for each in told] == ["ada", "bob"]
    assert [each["profile"] for each in told] == ["fast", "slow"]
    assert [each["directory"] for each in told] == [str(project.folder) for project in projects]
    assert [result.state_dir for result in results] == [project.state for project in projects]


def test_what_a_run_raises_reaches_the_one_who_starts_it(project: Project) -> None:
    with Host() as host:
        with pytest.raises(NotFound):
            host.start(request(project.folder, "nothing.yaml", 1))
        with pytest.raises(UsageError, match="n"):
            host.start(ExecRequest(str(project.folder / "numbers.yaml"), (("m", 1),), vouched=True))
        assert host.runs == ()
        assert host.start(request(project.folder, "numbers.yaml", 7)).result().state.outputs == {"said": "7\n"}


def test_a_host_that_closes_pauses_its_runs_and_another_goes_on_with_them(project: Project) -> None:
    watches = [Waiting() for _ in range(3)]
    host = Host()
    runs = [host.start(request(project.folder, "waits.yaml", n), watch) for n, watch in enumerate(watches)]
    for watch in watches:
        assert watch.reached.wait()
    host.close()
    assert [run.result().status for run in runs] == ["paused"] * 3
    assert not (project.folder / "after").exists()
    with pytest.raises(UsageError, match="is closed"):
        host.start(request(project.folder, "waits.yaml", 9))
    with Host() as another:
        again = [another.resume(run.id, project.state) for run in runs]
        project.go(3)
        assert [run.result().status for run in again] == ["completed"] * 3
    assert project.lines("before") == project.lines("after") == [0, 1, 2]


def test_one_run_is_stopped_and_its_neighbour_is_not(project: Project) -> None:
    watches = [Waiting(), Waiting()]
    with Host() as host:
        stopped, other = (
            host.start(request(project.folder, "waits.yaml", n), watch) for n, watch in enumerate(watches)
        )
        for watch in watches:
            assert watch.reached.wait()
        stopped.stop()
        assert stopped.result().status == "paused"
        assert not other.is_over
        project.go(1)
        assert other.result().status == "completed"
    assert project.lines("after") == [1]


def test_runs_of_a_process_that_is_killed_are_resumed_by_another(project: Project) -> None:
    """Killed while every run waits: what ran before is not repeated, what follows happens once."""
    count = 20
    script = (
        "import sys, test_many_runs as t; from pathlib import Path; folder = Path(sys.argv[1])\n"
        "host = t.Host(); watches = [t.Waiting() for _ in range(int(sys.argv[2]))]\n"
        "runs = [host.start(t.request(folder, 'waits.yaml', n), watch) for n, watch in enumerate(watches)]\n"
        "all(watch.reached.wait() for watch in watches); print(*(run.id for run in runs), flush=True)\n"
        "for run in runs: run.result()\n"
    )
    command = [sys.executable, "-c", script, str(project.folder), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) as process:
        assert process.stdout is not None
        ids = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    assert len(ids) == count
    assert {look(run, project.state).exit_code for run in ids} != {0}
    again = [Waiting() for _ in ids]
    with Host() as host:
        runs = [host.resume(each, project.state, watch) for each, watch in zip(ids, again)]
        for watch in again:  # what the killed process left behind has been ended by then
            watch.reached.wait()
        project.go(count)
        assert {run.result().status for run in runs} == {"completed"}
    assert project.lines("before") == project.lines("after") == list(range(count))
