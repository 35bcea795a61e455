"""Effects that call no capability: looks at the world, files saved, kept and put back, and what is known of tasks that
are done already."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, assert_never

from planrunner.capabilities.binding import Binding, Result, invoke, probe
from planrunner.capabilities.contract import Call
from planrunner.engine import freshness
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.backups import saved_or_restored, taken
from planrunner.engine.effects import (
    CheckFreshness,
    DropFreshness,
    Examine,
    ObserveFacts,
    Probe,
    RecheckEvidence,
    RecordFreshness,
    Restore,
    Save,
    TakeCheckpoint,
)
from planrunner.engine.evidence import looking
from planrunner.engine.gates import judged
from planrunner.engine.output import Record
from planrunner.engine.questions import LOOK, WORK, Question
from planrunner.engine.services import AttemptServices
from planrunner.errors import StorageFailed
from planrunner.machine.events import BackupMade, DoubtSettled, FactsObserved, FreshnessSeen, Outcome, UndoEnded
from planrunner.machine.verdicts import retry_delay, retry_policy
from planrunner.redaction import Redactor

Json = Any


Aside = ObserveFacts | CheckFreshness | RecordFreshness | DropFreshness | Save | Restore


def act(
    state_dir: str, effect: Aside, redactor: Redactor | None = None
) -> list[UndoEnded | BackupMade | FactsObserved | FreshnessSeen]:
    """Do what the effect asks for; the events that follow. No copy is kept of what holds a secret that ``redactor``
    knows. Raises StorageFailed when a copy cannot be kept."""
    match effect:
        case ObserveFacts():
            return [FactsObserved(effect.task, observe(effect.names, state_dir))]
        case Save() | Restore():
            return [saved_or_restored(state_dir, effect, redactor)]
        case CheckFreshness():
            return [freshness.look(state_dir, effect)]
        case RecordFreshness():
            freshness.remember(state_dir, effect)
        case DropFreshness():
            freshness.forget(state_dir, effect)
        case _:
            assert_never(effect)
    return []


def asking(
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    effect: Save | Probe | Examine,
) -> Question:
    """What a capability is asked for an effect that has a call of its own."""
    match effect:
        case Save():
            return capturing(effect, resolve, serve)
        case Probe():
            return probing(effect.call, resolve, serve)
        case Examine():
            return judged(effect, resolve, serve)
        case _:
            assert_never(effect)


def thread_work(
    state_dir: str, effect: Examine | RecheckEvidence | TakeCheckpoint, redactor: Redactor | None = None
) -> tuple[Callable[[], Any], list[Any] | None]:
    """What takes long and is done in a thread, and where its result goes; None: it is an event."""
    if isinstance(effect, TakeCheckpoint):
        return partial(taken, state_dir, effect, redactor), None
    return looking(effect)


def probing(
    call: Call, resolve: Callable[[str], Callable[..., Any]], serve: Callable[[Call], AttemptServices]
) -> Question:
    """One that does not answer in its time knows nothing; one that was stopped is asked again when the run goes on."""

    def unanswered(failure: str, words: str) -> DoubtSettled:
        return DoubtSettled(call.task.id, call.attempt, "unknown", words, failure)

    work = partial(_probed, call, resolve, serve)
    return Question(f"`probe` of `{call.task.uses}`", call.timeout or LOOK, work, unanswered)


def _probed(
    call: Call,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> DoubtSettled | None:
    """What the capability finds out; None where it was stopped meanwhile: what it says then may be half of a look."""
    binding = located(resolve, call.task.uses)
    context = Attempt(call, Record(""), serve).context._replace(cancelled=stopped)
    took_effect = probe(binding, context) if isinstance(binding, Binding) else None
    if stopped():
        return None
    if took_effect is None:
        return DoubtSettled(call.task.id, call.attempt, "unknown", "probe could not tell")
    return DoubtSettled(call.task.id, call.attempt, "completed" if took_effect else "retry", "probe")


def capturing(
    effect: Save, resolve: Callable[[str], Callable[..., Any]], serve: Callable[[Call], AttemptServices]
) -> Question:
    """The capability is asked for the state before; a task does not begin where it does not tell."""
    call = effect.call
    assert call is not None

    def unanswered(failure: str, words: str) -> BackupMade:
        return BackupMade(effect.task, effect.visit, (), (), words, failure)

    work = partial(_captured, effect, call, resolve, serve)
    return Question(f"`capture` of `{call.task.uses}`", call.timeout or WORK, work, unanswered)


def _captured(
    effect: Save,
    call: Call,
    resolve: Callable[[str], Callable[..., Any]],
    serve: Callable[[Call], AttemptServices],
    stopped: Callable[[], bool],
) -> BackupMade | StorageFailed | None:
    """Call the capability's ``capture``; None where the run was stopped meanwhile: it is asked when the run goes on."""
    binding = located(resolve, f"{call.task.uses}#capture")
    result: Result = binding if isinstance(binding, Outcome) else _noted(binding, call, serve, stopped)
    if isinstance(result, StorageFailed):
        return result
    answer = BackupMade(effect.task, effect.visit, ())
    if not isinstance(result, Outcome):
        return answer._replace(problem="its capability noted nothing")
    if result.failure:
        return None if stopped() else answer._replace(problem=result.message, failure=result.failure, rule=result.rule)
    return answer._replace(files=({"before": result.outputs},))


_PASSING = ("transient", "timeout")


def _noted(
    binding: Binding, call: Call, serve: Callable[[Call], AttemptServices], stopped: Callable[[], bool]
) -> Result:
    """What the capability notes; a failure that may pass is tried again as the task would be, any other one is not: the
    same look would come to the same."""
    context = Attempt(call, Record(""), serve).context._replace(cancelled=stopped)
    for tries in count(1):
        result = invoke(binding, call.inputs, context, "what its capability noted", halves=True)
        if not isinstance(result, Outcome) or result.failure not in _PASSING or stopped():
            return result
        policy = retry_policy(call.task.retry, result, tries, result.failure)
        if policy is None:
            return result
        due = time.monotonic() + retry_delay(policy, tries, f"{call.key}:{tries}", result.retry_after)
        while time.monotonic() < due and not stopped():
            time.sleep(0.05)
    raise AssertionError("the count has no end")


def observe(names: Iterable[str], state_dir: str, directory: str = "") -> dict[str, Json]:
    """The facts of these names; a name that is not known and one that cannot be found out are None.

    ``memory.has_space`` is about the disk of ``state_dir``, ``disk.free`` about that of ``directory``.
    """
    look_up = dict(_FACTS)
    look_up["memory.has_space"] = lambda: _free(state_dir)
    look_up["disk.free"] = lambda: _free(directory or ".")
    facts: dict[str, Json] = dict.fromkeys(names)
    for name in facts.keys() & look_up.keys():
        with suppress(OSError, ValueError, IndexError):
            facts[name] = look_up[name]()
    return facts


def _free(directory: str) -> int:
    """Free bytes for this user on the disk of a directory that may not exist yet."""
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _available_memory() -> int | None:
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _online() -> bool:
    """Whether a default route leads out through an interface that is up."""
    return any(_is_up(name) for name in (*_routes_v4(), *_routes_v6()))


def _routes_v4() -> list[str]:
    with open("/proc/net/route", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return [row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000" and int(row[3], 16) & 1]


def _routes_v6() -> list[str]:
    try:
        with open("/proc/net/ipv6_route", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return []
    # a default route has prefix length 00; the kernel keeps one on lo that refuses everything
    return [row[9] for row in rows if len(row) > 9 and row[1] == "00" and int(row[8], 16) & 1 and row[9] != "lo"]


def _is_up(interface: str) -> bool:
    try:
        with open(f"/sys/class/net/{interface}/operstate", encoding="ascii") as file:
            return file.read().strip() in ("up", "unknown")
    except OSError:
        return False


_FACTS: dict[str, Callable[[], Json]] = {
    "host.cpus": lambda: len(os.sched_getaffinity(0)),
    "host.load": lambda: os.getloadavg()[0],
    "host.memory": _available_memory,
    "host.os": lambda: os.uname().sysname.lower(),
    "network.online": _online,
}
