"""``planrunner chaos --real``: the real plan in scratch copies of its project, the real process killed with SIGKILL.

Every run has a copy of the project and a state directory of its own; what a task does outside of its project is done
all the same, once for each run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import planrunner
from planrunner.app.proof.chaos import FORMAT, ChaosRequest, check_reached
from planrunner.errors import UsageError
from planrunner.journal.proof import forget_place
from planrunner.journal.workspace import find_project

Json = Any

KILLS = 10
"""How many kills are tried unless told otherwise."""
LARGEST = 512_000_000
"""Bytes of a project that is still copied."""
LIVES = 20
PATIENCE = 3600
"""Seconds that one life may take."""
_ENDED = ("completed", "failed", "cancelled")
_LEFT_OUT = (".planrunner", ".venv", "venv", "node_modules", "__pycache__")


class _Ended(NamedTuple):
    """How a run rests: the JSON object of the command, and how often an attempt in doubt was settled."""

    run: dict[str, Json]
    killed: bool
    doubts: int
    writes: int


def real_chaos(request: ChaosRequest, progress: Callable[[int, int], None]) -> dict[str, Json]:
    """The object of ``chaos_object`` for real runs. Raises UsageError where the project cannot be copied or the plan
    does not run."""
    project = os.path.realpath(find_project(request.plan))
    _check_size(project)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planrunner-chaos-") as folder:
        site = _Site(request, project, folder)
        calm = site.run(0, False)
        check_reached(request, calm.writes)
        todo = list(_real_kills(request, calm.writes))
        rows: dict[str, dict[str, Json]] = {}
        doubts, runs, violation = 0, 0, None
        for number, (write, stored) in enumerate(todo):
            progress(number, len(todo))
            if request.time is not None and time.monotonic() - began > request.time:
                break
            ended = site.run(write, stored)
            runs, doubts = runs + 1, doubts + ended.doubts
            wrong = real_differences(calm.run, ended.run)
            what = f"{'after' if stored else 'before'} write {write}" + ("" if ended.killed else " (not reached)")
            word = "differs" if wrong else str(ended.run["status"])
            rows[what] = {"what": what, "runs": 1, "doubts": ended.doubts, "ended": {word: 1}}
            if wrong:
                violation = _real_violation(request, write, stored, wrong)
                break
    return {
        "format": FORMAT,
        "plan": request.plan,
        "real": True,
        "world": "the real one",
        "status": calm.run["status"],
        "writes": calm.writes,
        "runs": runs,
        "doubts": doubts,
        "left_out": 0 if violation else len(todo) - runs,
        "held": violation is None,
        "table": list(rows.values()),
        "violation": violation,
    }


def _real_violation(request: ChaosRequest, write: int, stored: bool, wrong: list[str]) -> dict[str, Json]:
    params = "".join(f" -p {name}={value}" for name, value in request.params)
    side = "--after" if stored else "--before"
    again = f"planrunner chaos {request.plan}{params} --real --only-write {write} {side}"
    return {"kills": [[write, stored]], "wrong": wrong, "again": again}


def _check_size(project: str) -> None:
    size = 0
    for here, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in files:
            try:
                size += os.lstat(os.path.join(here, name)).st_size
            except OSError:
                continue
        if size > LARGEST:
            raise UsageError(f"the project `{project}` is larger than {LARGEST // 1_000_000} MB: it is not copied")


def _real_kills(request: ChaosRequest, writes: int) -> Iterator[tuple[int, bool]]:
    if request.only:
        yield from request.only
        return
    every = [(write, stored) for write in range(1, writes + 1) for stored in (False, True)]
    most = KILLS if request.kills is None else request.kills
    yield from sorted(random.Random(request.seed).sample(every, min(most, len(every))))


def real_differences(calm: dict[str, Json], other: dict[str, Json]) -> list[str]:
    """What a kill changed: statuses of the run and its tasks. What tasks give back may hold times and is not
    compared."""
    found: list[str] = []
    if any(task["reason"] == "doubt" for task in other["tasks"].values()):
        return found  # the plan itself says that a crash makes a difference: a doubt settled by a rule of the task
    if calm["status"] != other["status"]:
        found.append(f"the run is {other['status']} instead of {calm['status']}")
    before, after = calm["tasks"], other["tasks"]
    for task in sorted(before.keys() | after.keys()):
        one, two = (tasks[task]["status"] if task in tasks else "missing" for tasks in (before, after))
        if one != two:
            found.append(f"`{task}` is {two} instead of {one}")
    return found


class _Site:
    """Where the copies of a project lie."""

    __slots__ = ("_count", "_folder", "_plan", "_project", "_request")

    def __init__(self, request: ChaosRequest, project: str, folder: str) -> None:
        self._request = request
        self._project = project
        self._plan = os.path.relpath(os.path.realpath(request.plan), project)
        self._folder = folder
        self._count = 0

    def run(self, write: int, stored: bool) -> _Ended:
        """Run the plan in a fresh copy; with ``write`` above 0 kill it there, and resume it until it rests."""
        self._count += 1
        copy = os.path.join(self._folder, f"run-{self._count}")
        shutil.copytree(self._project, copy, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        os.mkdir(os.path.join(copy, ".planrunner"), 0o700)
        try:
            return self._live(copy, write, stored)
        finally:
            forget_place(os.path.join(copy, ".planrunner"))
            shutil.rmtree(copy, ignore_errors=True)

    def _live(self, copy: str, write: int, stored: bool) -> _Ended:
        params = [word for name, value in self._request.params for word in ("-p", f"{name}={value}")]
        arguments = ["exec", self._plan, *params, "--json", "--progress", "quiet"]
        if self._request.seed:
            arguments += ["--seed", str(self._request.seed)]
        code, run = self._call(copy, (write, stored), arguments)
        killed, doubts = code == -signal.SIGKILL, 0
        for _ in range(LIVES):
            if run is not None and not _may_go_on(run):
                return _Ended(run, killed, doubts, self._writes(copy))
            settle = [f"{task}=retry" for task, found in (run or {}).get("tasks", {}).items() if _doubtful(found)]
            doubts += len(settle)
            words = [word for each in settle for word in ("--settle", each)]
            again = ["resume", "last", *words, "--json", "--progress", "quiet"]
            if run is None:  # it was killed
                seen = self._seen(copy)
                if seen is not None and seen["status"] in _ENDED:
                    return _Ended(seen, killed, doubts, self._writes(copy))
                again = arguments if seen is None else again
            code, run = self._call(copy, (0, False), again)
        raise UsageError(f"the run does not come to rest after {LIVES} resumes")

    def _seen(self, copy: str) -> Json:
        """How the run stands, None where the process died before there was one."""
        _, found = self._call(copy, (0, False), ["runs", "--json"])
        return self._call(copy, (0, False), ["show", "last", "--json"])[1] if (found or {}).get("runs") else None

    @staticmethod
    def _writes(copy: str) -> int:
        with open(os.path.join(copy, ".planrunner", "writes"), encoding="ascii") as file:
            return int(file.read() or 0)

    def _call(self, copy: str, kill: tuple[int, bool], arguments: list[str]) -> tuple[int, Json]:
        """Exit code and JSON of one life of the command."""
        side = "after" if kill[1] else "before"
        counter = os.path.join(copy, ".planrunner", "writes")
        if not os.path.exists(counter):
            open(counter, "w").close()
        words = [sys.executable, "-m", "planrunner.app.proof.dying", str(kill[0]), side, counter, *arguments]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER_")}
        env["PYTHONPATH"] = os.pathsep.join(part for part in (_package(), env.get("PYTHONPATH", "")) if part)
        done = subprocess.run(
            words,
            cwd=copy,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode in (2, 4, 5, 12):
            raise UsageError(f"the plan does not run in a copy: {done.stderr.strip()[-500:]}")
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            return done.returncode, None


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(planrunner.__file__)))


def _doubtful(found: dict[str, Json]) -> bool:
    return bool(found["status"] == "in_doubt")


def _may_go_on(run: dict[str, Json]) -> bool:
    """Whether a resume would change anything: the run was cut off, or somebody only has to settle a doubt."""
    return run["status"] == "paused" or any(_doubtful(found) for found in run["tasks"].values())
