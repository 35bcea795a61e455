"""Kills and disk errors at the system calls that write: nothing acknowledged is lost, nothing unsafe happens twice.

``strace`` injects them into the runner alone: into its main thread, and into the thread of a capability that writes.
CI takes a sample of the places; ``PLANRUNNER_FAULTS=all`` takes every one.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from planrunner import errors
from planrunner.app.history.show import Look, look
from planrunner.cli.guard import guarded
from planrunner.errors import NotFound, PlanrunnerError
from planrunner.journal.audit import verify_journal
from planrunner.machine.events import AttemptEnded

WRITES = (
    "write pwrite64 writev pwritev fsync fdatasync ftruncate fallocate rename renameat renameat2 unlink unlinkat link"
    " linkat symlink mkdir mkdirat"
).split()
TRACED = ",".join([*WRITES, "openat"])
MAKES = r"openat\(.*O_CREAT"
"""Files that are made: no more than a write, these need room on the disk."""
TAKES_ROOM = set(WRITES) - {"unlink", "unlinkat", "fsync", "fdatasync"}
"""What goes on failing on a disk that stays full."""
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
WAITS = """\
plan: waits
defaults: {timeout: 1m}
tasks:
  - {id: first, uses: files.write, with: {path: order, content: "first\\n"}}
  - {id: once, needs: [first], run: 'echo once >> order; until [ -e go ]; do sleep 0.01; done'}
  - {id: last, needs: [once], uses: files.write, with: {path: new/written, content: text, parents: true}}
"""
PLANS = {"chain": CHAIN, "keeps": KEEPS, "retries": RETRIES}

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed, so nothing injects")


class Place(NamedTuple):
    """A system call and which one of its kind it is, from 1. ``before`` counts the calls of each kind up to it."""

    call: str
    number: int
    before: dict[str, int]

    def kill(self) -> list[str]:
        return _traced([self.call], [f"inject={self.call}:signal=KILL:when={self.number}"])

    def fail(self, error: str, lasting: bool) -> list[str]:
        if not lasting or self.call == "openat":  # if every later opening failed not even modules could be read
            return _traced([self.call], [f"inject={self.call}:error={error}:when={self.number}"])
        calls = {*WRITES} if error == "EIO" else TAKES_ROOM | {self.call}
        since = {call: self.before.get(call, 0) + (call != self.call) for call in sorted(calls)}
        return _traced([*since], [f"inject={call}:error={error}:when={number}+" for call, number in since.items()])


def _traced(calls: list[str], injections: list[str]) -> list[str]:
    words = ["-e", f"trace={','.join(calls)}"]
    for injection in injections:
        words += ["-e", injection]
    return words


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not met():
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def tracing(process: int, thread: int, words: list[str], log: str) -> Iterator[None]:
    """``strace`` follows a thread of a process, and nothing else, until that ends."""
    tracer = subprocess.Popen(["strace", "-qqq", "-o", log, *words, "-p", str(thread)])
    status = Path(f"/proc/{process}/task/{thread}/status")
    try:
        until(lambda: f"TracerPid:\t{tracer.pid}\n" in status.read_text())
        yield
        tracer.wait(240)
    finally:
        tracer.kill()
        tracer.wait()


class Ran(NamedTuple):
    """A command that has ended, and all that it said."""

    code: int
    said: str


class Project:
    """A folder with a plan, in which the runner can be hurt."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.state = str(folder / "state")
        (folder / "p.yaml").write_text(text)

    def fork(self, *words: str, gun: int | None = None, modules: str = "") -> int:
        """A command in a fork of this process, which begins once it can read from ``gun``: a start of Python takes
        longer than all that the command does. Its id. ``modules`` names the file that is to hold those it needed."""
        pid = os.fork()
        if pid:
            return pid
        code = 99
        try:
            os.chdir(self.folder)
            file = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(file, stream)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            if gun is not None:
                os.read(gun, 1)
            os.environ["XDG_DATA_HOME"] = str(self.folder / "data")  # key and heads are made under the same fire
            code = guarded(["--state", self.state, *words])
            sys.stdout.flush()
            if modules:
                Path(modules).write_text("\n".join(sys.modules))
        finally:
            os._exit(code)

    def ended(self, pid: int) -> Ran:
        code: int | None = None
        end = time.monotonic() + 240
        while code is None:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                end += 50
            else:
                time.sleep(0.002)
        return Ran(code, (self.folder / "said").read_text())

    def call(self, *words: str, modules: str = "") -> Ran:
        return self.ended(self.fork(*words, modules=modules))

    def hurt(self, words: list[str], log: str = os.devnull) -> Ran:
        """Run the plan; what is injected goes into the runner's own thread."""
        gun, trigger = os.pipe()
        pid = self.fork("exec", "p.yaml", gun=gun)
        until((self.folder / "said").exists)  # what the fork itself opens is not traced
        with tracing(pid, pid, words, log):
            os.write(trigger, b".")
            os.close(trigger)
            os.close(gun)
            return self.ended(pid)

    def order(self) -> list[str]:
        path = self.folder / "order"
        return path.read_text().split() if path.exists() else []

    def run(self) -> Look | None:
        try:
            return look("last", self.state)
        except PlanrunnerError:
            return None

    def prove(self) -> None:
        """A journal that a crash or a bad disk left behind is what was written."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("XDG_DATA_HOME", str(self.folder / "data"))
            try:
                found = verify_journal(self.state).breaks
            except NotFound:
                found = ()
                assert self.run() is None
            if [each.kind for each in found] != [
                "damaged"
            ] or self.run() is not None:  # a database that was never laid out
                assert not found

    def finish(self) -> None:
        """Bring the run to its end as somebody would who can see what was done."""
        words = ["resume", "last"]
        if self.run() is None:
            assert not self.order(), "the run is lost, and it had acted"
            words = ["exec", "p.yaml"]
        for _ in range(4):
            ran = self.call(*words)
            if ran.code == errors.OK or "has already completed" in ran.said:
                return
            assert ran.code == errors.WAITING, ran
            words = ["resume", "last", "--settle", f"once={'completed' if 'once' in self.order() else 'retry'}"]
        raise AssertionError("the run does not come to an end")

    def check(self, calm: dict[str, str], told: set[str]) -> None:
        self.prove()
        found = self.run()
        assert found is not None
        assert found.state.status == "completed"
        assert statuses(found) == calm
        assert self.order().count("once") == 1
        assert {"first", "once"} <= set(self.order())
        for task in told:
            assert len(ends(found, task)) == 1, f"`{task}` ran again after it was told to have completed"


def statuses(found: Look) -> dict[str, str]:
    return {task.id: each.status for task, each in zip(found.state.specs, found.state.tasks)}


def ends(found: Look, task: str) -> list[AttemptEnded]:
    """The ends of attempts at a task that succeeded."""
    events = [entry.event for entry in found.entries]
    ended = [event for event in events if isinstance(event, AttemptEnded) and event.task == task]
    return [event for event in ended if not event.outcome.failure]


def told(ran: Ran, calm: dict[str, str]) -> set[str]:
    """Tasks that the runner told to have completed."""
    return {name for name in re.findall(r"✔ (\S+) completed", ran.said) if name in calm}


def places(log: Path) -> list[Place]:
    """Every system call of the set that a trace holds, in its order."""
    counts: Counter[str] = Counter()
    found = []
    for line in log.read_text().splitlines():
        if name := re.match(r"(\w+)\(", line):
            counts[name[1]] += 1
            if name[1] != "openat" or re.match(MAKES, line):
                found.append(Place(name[1], counts[name[1]], dict(counts)))
    return found


class Calm(NamedTuple):
    """What an undisturbed run of a plan does."""

    places: list[Place]
    statuses: dict[str, str]


def load_modules(folder: Path, text: str) -> None:
    """Whatever a run needs is there before the forks: the files that it opens are its own then."""
    project = Project(folder, text)
    names = folder / "modules"
    (folder / "go").touch()
    assert project.call("exec", "p.yaml", modules=str(names)).code == errors.OK
    for name in names.read_text().splitlines():
        if name.startswith("planrunner."):
            importlib.import_module(name)


def calm_run(folder: Path, plan: str) -> Calm:
    load_modules(folder.with_name("first"), PLANS[plan])
    project = Project(folder, PLANS[plan])
    log = folder / "calls"
    ran = project.hurt(["-e", f"trace={TRACED}"], str(log))
    assert ran.code == errors.OK, ran
    found = project.run()
    assert found is not None
    return Calm(places(log), statuses(found))


def at_each(found: Sequence[Place], work: Callable[[Place], object]) -> None:
    """Every place is tried before what went wrong is told."""
    wrong = []
    for place in found:
        try:
            work(place)
        except AssertionError as error:
            wrong.append(f"{place.call} {place.number}: {error}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(found)} places", *wrong])


@pytest.fixture(params=list(PLANS))
def plan(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.limit(1800)
def test_killed_at_a_system_call_that_writes_a_run_goes_on_without_loss(plan: str, tmp_path: Path) -> None:
    calm = calm_run(tmp_path / "calm", plan)

    def killed(place: Place) -> None:
        project = Project(tmp_path / f"{place.call}-{place.number}", PLANS[plan])
        ran = project.hurt(place.kill())
        project.prove()
        project.finish()
        project.check(calm.statuses, told(ran, calm.statuses))

    assert len(calm.places) > 40
    at_each(calm.places[::EVERY], killed)


def failed_at(
    place: Place, error: str, lasting: bool, folder: Path, text: str, hurt: Callable[[Project, list[str], str], Ran]
) -> tuple[Project, Ran]:
    """A run in which a call fails. How many files are opened to be read before it differs from run to run, and a full
    disk refuses none of these: where one of them was hit, the numbers beside it are tried."""
    shifts = (0, 1, -1, 2, -2, 3, -3) if place.call == "openat" else (0,)
    for number in (place.number + shift for shift in shifts if place.number + shift > 0):
        project = Project(folder / f"{place.call}-{place.number}-{number}", text)
        log = project.folder / "calls"
        ran = hurt(project, place._replace(number=number).fail(error, lasting), str(log))
        if place.call != "openat" or re.search(rf"{MAKES}.*INJECTED", log.read_text()):
            return project, ran
    raise AssertionError("no file that is made was hit")


def disturbed(project: Project, ran: Ran, calm: dict[str, str]) -> int:
    """Go on after an error of the disk; the exit code of the run that met it."""
    assert ran.code in (errors.OK, errors.FAILED, errors.STORAGE), ran
    assert "Traceback" not in ran.said
    if ran.code == errors.FAILED:  # a task's own file could not be written: that is its failure
        found = project.run()
        assert found is not None
        assert found.state.status == "failed"
        assert project.order().count("once") <= 1
        return ran.code
    project.finish()
    project.check(calm, told(ran, calm))
    return ran.code


@pytest.mark.limit(1800)
@pytest.mark.parametrize(("error", "lasting"), FAULTS)
def test_a_disk_that_fails_parks_the_run_and_a_resume_loses_nothing(
    plan: str, error: str, lasting: bool, tmp_path: Path
) -> None:
    calm = calm_run(tmp_path / "calm", plan)
    codes: Counter[int] = Counter()

    def failing(place: Place) -> None:
        project, ran = failed_at(place, error, lasting, tmp_path, PLANS[plan], Project.hurt)
        codes[disturbed(project, ran, calm.statuses)] += 1

    at_each(calm.places[len(calm.places) // 2 % EVERY :: EVERY], failing)
    assert codes[errors.STORAGE]


def hurt_thread(project: Project, words: list[str], log: str = os.devnull) -> Ran:
    """Run the plan that waits; what is injected goes into the thread of its capability from its second file on."""
    pid = project.fork("exec", "p.yaml")
    until(lambda: "once" in project.order())
    (thread,) = {int(name) for name in os.listdir(f"/proc/{pid}/task")} - {pid}
    with tracing(pid, thread, words, log):
        (project.folder / "go").touch()
        return project.ended(pid)


@pytest.mark.limit(900)
@pytest.mark.parametrize("error", ["KILL", "ENOSPC", "EIO"])
def test_what_a_capability_writes_in_its_thread_may_be_killed_or_fail_like_all_else(error: str, tmp_path: Path) -> None:
    load_modules(tmp_path / "first", WAITS)
    quiet = Project(tmp_path / "calm", WAITS)
    log = tmp_path / "calls"
    assert hurt_thread(quiet, ["-e", f"trace={TRACED}"], str(log)).code == errors.OK
    run = quiet.run()
    assert run is not None
    calm = statuses(run)

    def hurt(place: Place) -> None:
        if error == "KILL":
            project = Project(tmp_path / f"{place.call}-{place.number}", WAITS)
            ran = hurt_thread(project, place.kill())
            project.finish()
            project.check(calm, told(ran, calm))
        else:
            project, ran = failed_at(place, error, False, tmp_path, WAITS, hurt_thread)
            disturbed(project, ran, calm)

    found = places(log)[:-1]  # the last one wakes the loop, by a pipe
    assert len(found) > 4
    at_each(found[:: 1 if ALL else 3], hurt)
