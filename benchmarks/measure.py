"""Whole processes, timed from outside: posix_spawn to wait4, contenders in turn, ratios taken round by round."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """One finished process: seconds of wall clock, seconds of processor (its children included), peak memory in MiB."""

    wall: float
    cpu: float
    peak: float


class Contender(NamedTuple):
    """A command that takes part in a row. ``before`` runs untimed in front of each round (new folder or plan text)."""

    name: str
    arguments: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    before: Callable[[], None] | None = None
    exit_codes: tuple[int, ...] = (0,)


class CommandFailed(Exception):
    """A contender ended with an unexpected exit code; the message ends with what it printed."""


def run_once(contender: Contender) -> Sample:
    """Runs a contender to its end. Its output goes to a file, as in a CI log."""
    if contender.before is not None:
        contender.before()
    os.chdir(contender.cwd)
    log = os.path.join(contender.cwd, f".out-{contender.name}".replace(" ", "-").replace("/", "-"))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    started = time.monotonic()
    pid = os.posix_spawn(contender.arguments[0], list(contender.arguments), dict(contender.env), file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    if code not in contender.exit_codes:
        with open(log, encoding="utf-8", errors="replace") as file:
            tail = file.read()[-2000:]
        raise CommandFailed(f"{contender.name}: exit code {code}\n{' '.join(contender.arguments)}\n{tail}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_turn(contenders: Sequence[Contender], rounds: int) -> dict[str, list[Sample]]:
    """One uncounted round, then ``rounds`` of A B C, C B A, …: a slow minute of the machine hits everyone alike."""
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        order = contenders if number % 2 == 0 else list(reversed(contenders))
        for contender in order:
            sample = run_once(contender)
            if number:
                samples[contender.name].append(sample)
    return samples


class Spread(NamedTuple):
    """A median with the lowest and the highest value."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def walls(samples: Sequence[Sample]) -> Spread:
    return spread([sample.wall for sample in samples])


def ratios(samples: Sequence[Sample], others: Sequence[Sample]) -> Spread:
    """How many times the wall clock of the others, round by round."""
    return spread([one.wall / other.wall for one, other in zip(samples, others, strict=True)])


def peaks(samples: Sequence[Sample]) -> Spread:
    return spread([sample.peak for sample in samples])


def median_of(act: Callable[[], object], times: int = 31) -> float:
    """The median of the milliseconds that an act takes, after once that is not counted."""
    act()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.05)
