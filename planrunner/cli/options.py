"""Options that several commands share, and values as people type them: amounts, durations, points of time."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import click

from planrunner.plan.expressions.quantities import parse_count, parse_duration, parse_money

ADDABLE = ("time", "cost", "tokens", "calls", "attempts", "iterations")


def parse_amount(what: str, text: str) -> float | None:
    """Seconds, dollars or a count; None for any other text, or 0."""
    if what not in ADDABLE:
        return None
    parse = {"time": parse_duration, "cost": parse_money}.get(what, parse_count)
    more = parse(text)
    if more is None and what == "cost":
        more = parse_count(text)
    return more or None


def parse_amounts(values: tuple[str, ...]) -> dict[str, float]:
    """The values of ``--add``. Raises ValueError with the first invalid one."""
    amounts = {}
    for value in values:
        what, _, text = value.partition("=")
        more = parse_amount(what, text)
        if more is None:
            raise ValueError(f"`{value}` is not 'cost=$2', time=10m, tokens=50k or the like")
        amounts[what] = more
    return amounts


class Lasting(click.ParamType[float]):
    """Seconds of ``90m`` or ``1d``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = parse_duration(value)
        if seconds is None:
            self.fail(f"`{value}` is not a duration: write `90m`, `12h` or `7d`", param, ctx)
        return float(seconds)


class Moment(click.ParamType[float]):
    """Seconds since 1970 of ``2h`` (ago), ``2026-11-20`` or ``2026-11-20T14:30``; without a zone it is local time."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        ago = parse_duration(value)
        if ago is not None:
            return time.time() - ago
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"`{value}` is not a time: write how long ago, as `90m`, or a date, as `2026-11-20T14:30`", param, ctx
            )


RESOLUTIONS = ("retry", "completed", "failed", "rollback")

PROGRESS = ("auto", "tree", "plain", "github", "jsonl", "quiet")

OUTPUT = ("grouped", "prefixed", "none")
OUTPUT_HELP = "Output of tasks (default: none in the tree, which shows the last line of each; else grouped)."

ACCEPT_POLICY = "Apply only the current policy."
UNATTENDED = "Never prompt: exit 8 at a gate; roll back tasks in doubt that declare a rollback."

NO_SANDBOX = "Run without the sandbox even where a policy demands one (terminal only; recorded)."

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

Pairs = tuple[tuple[str, str], ...]


class ExecOptions:
    """What ``planrunner exec`` was told; ``params`` are pairs as written, later ones win."""

    __slots__ = (
        "allow_outside",
        "dry_run",
        "force",
        "json",
        "max_parallel",
        "no_sandbox",
        "no_wait",
        "only",
        "output",
        "params",
        "params_file",
        "plan",
        "preview",
        "progress",
        "seed",
        "trust",
        "unattended",
        "until",
    )

    plan: str
    params: Pairs
    params_file: str | None
    only: tuple[str, ...]
    until: tuple[str, ...]
    max_parallel: int | None
    dry_run: bool
    force: bool
    seed: int | None
    json: bool
    progress: str
    output: str | None
    preview: str | None
    no_wait: bool
    no_sandbox: bool
    unattended: bool
    trust: str | None
    allow_outside: tuple[str, ...]

    def __init__(self, plan: str, **given: object) -> None:
        """``given`` holds any of the other slots by name."""
        self.plan = plan
        self.params = self.only = self.until = self.allow_outside = ()
        self.params_file = self.max_parallel = self.seed = self.preview = self.trust = self.output = None
        self.force = self.dry_run = self.json = self.no_wait = self.no_sandbox = self.unattended = False
        self.progress = "auto"
        for name, value in given.items():
            setattr(self, name, value)


class ResumeOptions:
    """The options of ``planrunner resume``; ``settle`` pairs a task with retry, completed, failed or
    rollback; ``unattended`` never asks."""

    __slots__ = ("accept_policy", "json", "no_sandbox", "no_wait", "output", "progress", "run", "settle", "unattended")

    run: str
    settle: Pairs
    json: bool
    progress: str
    output: str | None
    no_sandbox: bool
    no_wait: bool
    unattended: bool
    accept_policy: bool

    def __init__(self, run: str, **given: object) -> None:
        """``given`` holds any of the other slots by name."""
        self.run = run
        self.settle = ()
        self.output = None
        self.json = self.no_sandbox = self.no_wait = self.unattended = self.accept_policy = False
        self.progress = "auto"
        for name, value in given.items():
            setattr(self, name, value)


def resolution(text: str) -> tuple[str, str] | None:
    """``task=retry`` as a pair, None where it is not one; the values of an item of a matrix have equals signs too."""
    name, _, how = text.rpartition("=")
    return (name, how) if name and how in RESOLUTIONS else None


def pair(text: str) -> tuple[str, str] | None:
    """``name=value`` as a pair, None without a name or an equals sign."""
    name, equals, value = text.partition("=")
    return (name, value) if equals and name else None
