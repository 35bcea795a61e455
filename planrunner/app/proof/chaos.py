"""``planrunner chaos``: one calm run in an imagined world, then the same run with its process killed at every journal
write, before and after the entries reach the disk, and during the recovery. The end must be the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any, NamedTuple

from planrunner.app.proof.implied import required
from planrunner.app.proof.lives import Broken, Kill, Lived, Stage, live
from planrunner.app.proof.people import decided
from planrunner.app.proof.promises import check, differences
from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.testing import runnable
from planrunner.app.proof.world import World, decision, known_capabilities, script, staged
from planrunner.capabilities.contract import Call
from planrunner.errors import UsageError
from planrunner.jsontext import as_text
from planrunner.machine.events import Outcome, TaskSettled
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params

Json = Any

FORMAT = 1
PAIRS = 24
"""How many runs are killed a second time while they recover, unless told otherwise."""


class ChaosRequest(NamedTuple):
    """``kills`` limits the writes that are tried (None: all, else so many by chance); ``seed`` above 0 lets attempts
    take random times and fail at random; ``only`` repeats one run: (write, whether the entries reached the disk)."""

    plan: str
    params: tuple[tuple[str, Json], ...] = ()
    kills: int | None = None
    seed: int = 0
    time: float | None = None
    pairs: int = PAIRS
    only: tuple[tuple[int, bool], ...] = ()


class Trial(NamedTuple):
    """One run with kills: how it ended, in how many lives, with how many doubts, and what was wrong with it."""

    kills: tuple[tuple[int, bool], ...]
    killed: tuple[Kill, ...]
    status: str
    lives: int
    doubts: int
    wrong: tuple[str, ...]


class Chaos(NamedTuple):
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
        """The same task and attempt always end the same way, whoever asks and whenever."""
        rng = random.Random(f"{seed}/{call.task.id}/{call.attempt}")
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


def chaos_object(request: ChaosRequest, found: Chaos) -> dict[str, Json]:
    """Everything as data: what ``chaos --json`` prints and the report for people is made of."""
    state = found.calm.state
    bad = next((trial for trial in found.trials if trial.wrong), None)
    return {
        "format": FORMAT,
        "plan": request.plan,
        "world": f"seed {request.seed}" if request.seed else "all goes well",
        "status": state.status,
        "writes": found.calm.writes,
        "runs": len(found.trials),
        "doubts": sum(trial.doubts for trial in found.trials),
        "left_out": found.left_out,
        "held": bad is None,
        "table": _table(found),
        "violation": None if bad is None else _violation(request, bad),
    }


def _table(found: Chaos) -> list[dict[str, Json]]:
    """One row for each place of a kill: what was being written, how many runs died there, how they ended."""
    rows: dict[str, dict[str, Json]] = {}
    for trial in found.trials:
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
