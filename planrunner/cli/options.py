"""Options that several commands share, and values as people type them: amounts, durations, points of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from planrunner.app.plans.path import plan_named
from planrunner.later import Later
from planrunner.records import Struct

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from planrunner.plan.expressions.quantities import parse_amount, parse_duration
else:
    parse_amount = Later("planrunner.plan.expressions.quantities:parse_amount")
    parse_duration = Later("planrunner.plan.expressions.quantities:parse_duration")

Command = Callable[..., Any]


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


class Duration(click.ParamType[float]):
    """Seconds of ``90m`` or ``1d``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = parse_duration(value)
        if seconds is None:
            self.fail(f"`{value}` is not a duration: write `90m`, `12h` or `7d`", param, ctx)
        return float(seconds)


class Time(click.ParamType[float]):
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


class PlanPath(click.Path):
    """A plan by its path or name, as its path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return plan_named(str(super().convert(value, param, ctx)))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        completion = import_module("planrunner.cli.completion")  # by name: other calls load nothing of it
        names: list[CompletionItem] = completion.PLAN(ctx, param, incomplete)
        return names + super().shell_complete(ctx, param, incomplete)


RESOLUTIONS = ("retry", "completed", "failed", "rollback")

PROGRESS = ("auto", "tree", "plain", "github", "jsonl", "quiet")

OUTPUT = ("grouped", "prefixed", "none")
OUTPUT_HELP = "Output of tasks (default: none in the tree, which shows the last line of each; else grouped)."

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

Pairs = tuple[tuple[str, str], ...]


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Pairs:
    """The values of an option such as ``-p NAME=VALUE``, each split at its first equals sign."""
    split = [value.partition("=") for value in values]
    for value, (name, equals, _) in zip(values, split, strict=True):
        if not (name and equals):
            raise click.BadParameter(f"`{value}` is not {getattr(param, 'metavar', '')}", ctx, param)
    return tuple((name, text) for name, _, text in split)


def params_option(help: str = "Set a parameter.") -> Callable[[Command], Command]:
    return click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help=help)


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for several, in the order in which help lists them."""
    return lambda command: reduce(lambda inner, decorate: decorate(inner), reversed(decorators), command)


revised_option = options(
    click.option(
        "--plan",
        "mended",
        metavar="PLAN",
        type=PlanPath(),
        help="Revise the run first: continue with this changed plan.",
    ),
    params_option("With --plan: set a parameter."),
)
"""The options by which a command revises the run that it continues."""

output_option = click.option("--output", type=click.Choice(OUTPUT), help=OUTPUT_HELP)
progress_option = click.option("--progress", type=click.Choice(PROGRESS), default="auto", help="How progress is shown.")
no_wait_option = click.option("--no-wait", is_flag=True, help="Exit with code 8 at a gate, even at a terminal.")
no_sandbox_option = click.option(
    "--no-sandbox",
    is_flag=True,
    help="Run without the sandbox even where a policy demands one (terminal only; recorded).",
)
unattended_option = click.option(
    "--unattended",
    is_flag=True,
    help="Never prompt: exit 8 at a gate; roll back tasks in doubt that declare a rollback.",
)
accept_policy_option = click.option("--accept-policy", is_flag=True, help="Apply only the current policy.")
result_option = click.option("--json", is_flag=True, help="Print one JSON object about the run at the end.")


class ExecOptions(Struct):
    """The options of ``planrunner exec``; of ``params`` with the same name the last counts."""

    plan: str
    params: Pairs = ()
    params_file: str | None = None
    only: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    max_parallel: int | None = None
    dry_run: bool = False
    force: bool = False
    seed: int | None = None
    json: bool = False
    progress: str = "auto"
    output: str | None = None
    preview: str | None = None
    no_wait: bool = False
    no_sandbox: bool = False
    unattended: bool = False
    trust: str | None = None
    allow_outside: tuple[str, ...] = ()
    group: str | None = None
    overlap: str | None = None


class ResumeOptions(Struct):
    """The options of ``planrunner resume``; ``settle`` pairs a task with retry, completed, failed or rollback."""

    run: str
    settle: Pairs = ()
    json: bool = False
    progress: str = "auto"
    output: str | None = None
    no_sandbox: bool = False
    no_wait: bool = False
    unattended: bool = False
    accept_policy: bool = False
