"""``planrunner chaos``: one calm run in an imagined world, then the same run with its process killed at every journal
write, before and after the entries reach the disk, and during the recovery. The end must be the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any

from planrunner.app.proof.coverage import required
from planrunner.app.proof.lives import Broken, Kill, Lived, Stage, live
from planrunner.app.proof.promises import check, differences
from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.scratch import check_size, environment, scratch_copy
from planrunner.app.proof.test import runnable
from planrunner.app.proof.world import World, decided, decision, known_capabilities, script, staged
from planrunner.capabilities.contract import Call
from planrunner.errors import UsageError
from planrunner.journal.workspace import find_project
from planrunner.jsontext import as_text
from planrunner.machine.events import Outcome, TaskSettled
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params
from planrunner.records import Struct

Json = Any


FORMAT = 1
PAIRS = 24
"""How many runs are killed a second time while they recover, unless told otherwise."""


class ChaosRequest(Struct):
    """``kills`` limits the writes that are tried (None: all, else so many by chance); ``seed`` above 0 lets attempts
    take random times and fail at random; ``only`` repeats one run: (write, whether the entries reached the disk)."""

    plan: str
    params: tuple[tuple[str, Json], ...] = ()
    kills: int | None = None
    seed: int = 0
    time: float | None = None
    pairs: int = PAIRS
    only: tuple[tuple[int, bool], ...] = ()


class Trial(Struct):
    """One run with kills: how it ended, in how many lives, with how many doubts, and what was wrong with it."""

    kills: tuple[tuple[int, bool], ...]
    killed: tuple[Kill, ...]
    status: str
    lives: int
    doubts: int
    wrong: tuple[str, ...]


class Chaos(Struct):
    """What came of it all. ``left_out`` counts the runs for which there was no time."""

    calm: Lived
    trials: tuple[Trial, ...]
    left_out: int


def chaos(request: ChaosRequest, progress: Callable[[int, int], None] = lambda done, all: None) -> Chaos:
    """Try every kill, up to the first that does harm. Raises NotFound, PlanInvalid, UsageError; Broken where the calm
    run itself breaks a promise."""
    plan = runnable(request.plan)
    stage = imagined_stage(plan, request)
    calm = live(stage)
    check(stage.plan, calm)
    check_reached(request, calm.writes)
    todo = list(_kills(request, calm.writes))
    began = time.monotonic()
    trials: list[Trial] = []
    for number, kills in enumerate(todo):
        progress(number, len(todo))
        if request.time is not None and time.monotonic() - began > request.time:
            break
        trials.append(_trial(stage, calm, kills))
        if trials[-1].wrong:
            break
    left = 0 if trials and trials[-1].wrong else len(todo) - len(trials)
    return Chaos(calm, tuple(trials), left)


def check_reached(request: ChaosRequest, writes: int) -> None:
    """Raises UsageError where the first write that is asked for comes after the end of the run; a later kill of
    several may hit the recovery, which writes more."""
    first = min((write for write, _ in request.only), default=1)
    if first > writes:
        raise UsageError(f"there is no write {first}: the run has {writes}", "`--only-write` counts them from 1")


def imagined_stage(plan: Plan, request: ChaosRequest) -> Stage:
    """The world of chaos: all goes well, or by the seed."""
    given = dict(request.params)
    bound = bind_params(plan, {**required(plan), **given})
    if bound.problems:
        raise UsageError("; ".join(bound.problems))
    known = known_capabilities(plan)
    world = World(judged=False, fields=known.fields, read=outputs_read(plan))
    answers = script(world)
    if request.seed:
        answers = answers._replace(outcome=_seeded(answers.outcome, request.seed))
    return Stage(
        staged(plan, world),
        answers,
        known.traits,
        bound.values,
        request.seed,
        answer=lambda state, number: decided(state, number, decision(world, state.specs[number].id)),
    )


def _seeded(well: Callable[[Call], Outcome], seed: int) -> Callable[[Call], Outcome]:
    def outcome(call: Call) -> Outcome:
        """The same task and attempt always end the same way."""
        rng = random.Random(f"{seed}/{call.name}/{call.attempt}")
        duration = round(rng.random() * 20, 3)
        if rng.random() < 0.25:
            failure = rng.choice(["transient", "logic"])
            return Outcome(failure, f"the seed lets it fail ({failure})", exit_code=1, duration=duration)
        return well(call)._replace(duration=duration)

    return outcome


def _kills(request: ChaosRequest, writes: int) -> Iterator[tuple[tuple[int, bool], ...]]:
    """The kills of each run: every write before and after, then pairs, of which the second hits the recovery."""
    if request.only:
        yield request.only
        return
    rng = random.Random(request.seed)
    numbers = list(range(1, writes + 1))
    if request.kills is not None and request.kills < len(numbers):
        numbers = sorted(rng.sample(numbers, request.kills))
    for write in numbers:
        yield ((write, False),)
        yield ((write, True),)
    for _ in range(request.pairs if numbers else 0):
        first = rng.choice(numbers)
        second = first + rng.randint(1, 3)
        yield ((first, rng.random() < 0.5), (second, rng.random() < 0.5))


def _trial(stage: Stage, calm: Lived, kills: tuple[tuple[int, bool], ...]) -> Trial:
    try:
        lived = live(stage, dict(kills))
        check(stage.plan, lived)
        wrong = tuple(differences(calm.state, lived.state))
    except Broken as error:
        return Trial(kills, (), "broken", 0, 0, (str(error),))
    doubts = sum(isinstance(e.event, TaskSettled) and e.event.reason == "ask" for e in lived.entries)
    return Trial(kills, tuple(lived.killed), lived.state.status, lived.lives, doubts, wrong)


def chaos_object(request: ChaosRequest, chaos: Chaos) -> dict[str, Json]:
    """Everything as data: what ``chaos --json`` prints and the report for people is made of."""
    state = chaos.calm.state
    bad = next((trial for trial in chaos.trials if trial.wrong), None)
    return {
        "format": FORMAT,
        "plan": request.plan,
        "world": f"seed {request.seed}" if request.seed else "all goes well",
        "status": state.status,
        "writes": chaos.calm.writes,
        "runs": len(chaos.trials),
        "doubts": sum(trial.doubts for trial in chaos.trials),
        "left_out": chaos.left_out,
        "held": bad is None,
        "table": _table(chaos),
        "violation": None if bad is None else _violation(request, bad),
    }


def _table(chaos: Chaos) -> list[dict[str, Json]]:
    """One row for each place of a kill: what was being written, how many runs died there, how they ended."""
    rows: dict[str, dict[str, Json]] = {}
    for trial in chaos.trials:
        what = "second kill during recovery" if len(trial.kills) > 1 else _place(trial)
        row = rows.setdefault(what, {"what": what, "runs": 0, "doubts": 0, "ended": {}})
        row["runs"] += 1
        row["doubts"] += trial.doubts
        ended = "differs" if trial.wrong else trial.status
        row["ended"][ended] = row["ended"].get(ended, 0) + 1
    return list(rows.values())


def _place(trial: Trial) -> str:
    if not trial.killed:
        return "at a write that this run does not reach"
    kill = trial.killed[0]
    return f"{'after' if kill.stored else 'before'} {kill.first}"


def _violation(request: ChaosRequest, trial: Trial) -> dict[str, Json]:
    params: Mapping[str, Json] = dict(request.params)
    words = [
        "planrunner chaos",
        request.plan,
        *(f"-p {quote(f'{name}={as_text(value, 10_000)}')}" for name, value in params.items()),
    ]
    if request.seed:
        words.append(f"--seed {request.seed}")
    if len(trial.kills) == 1:
        write, stored = trial.kills[0]
        words.append(f"--only-write {write} {'--after' if stored else '--before'}")
    else:
        text = ",".join(f"{write}:{'after' if stored else 'before'}" for write, stored in trial.kills)
        words.append(f"--only-write {text}")
    return {"kills": [list(kill) for kill in trial.kills], "wrong": list(trial.wrong), "again": " ".join(words)}


KILLS = 10
"""How many kills are tried unless told otherwise."""
LIVES = 20
PATIENCE = 3600
"""Seconds that one life may take."""
_ENDED = ("completed", "failed", "cancelled")


class _Ended(Struct):
    """How a run rests: the JSON object of the command, and how often an attempt in doubt was settled."""

    run: dict[str, Json]
    killed: bool
    doubts: int
    writes: int


def real_chaos(request: ChaosRequest, progress: Callable[[int, int], None]) -> dict[str, Json]:
    """The object of ``chaos_object`` for real runs. Raises UsageError where the project cannot be copied or the plan
    does not run."""
    project = os.path.realpath(find_project(request.plan))
    check_size(project)
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
    result: list[str] = []
    if any(task["reason"] == "doubt" for task in other["tasks"].values()):
        return result  # the plan itself says that a crash makes a difference: a doubt settled by a rule of the task
    if calm["status"] != other["status"]:
        result.append(f"the run is {other['status']} instead of {calm['status']}")
    before, after = calm["tasks"], other["tasks"]
    for task in sorted(before.keys() | after.keys()):
        one, two = (tasks[task]["status"] if task in tasks else "missing" for tasks in (before, after))
        if one != two:
            result.append(f"`{task}` is {two} instead of {one}")
    return result


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
        with scratch_copy(self._project, os.path.join(self._folder, f"run-{self._count}")) as copy:
            return self._live(copy, write, stored)

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
        raise UsageError(f"the run has not ended after {LIVES} resumes")

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
        done = subprocess.run(
            words,
            cwd=copy,
            env=environment(),
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


def _doubtful(task: dict[str, Json]) -> bool:
    return bool(task["status"] == "in_doubt")


def _may_go_on(run: dict[str, Json]) -> bool:
    """Whether a resume would change anything: the run was interrupted, or only a doubt is to be settled."""
    return run["status"] == "paused" or any(_doubtful(task) for task in run["tasks"].values())
