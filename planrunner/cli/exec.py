"""``planrunner exec``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from planrunner.cli import runner
from planrunner.cli.group import given_settings, plan_missing
from planrunner.cli.options import (
    PROGRESS,
    ExecOptions,
    PlanPath,
    no_sandbox_option,
    no_wait_option,
    output_option,
    params_option,
    result_option,
    unattended_option,
)
from planrunner.cli.settings import messages


@click.command("exec")
@click.argument("plan", required=False, type=PlanPath())
@params_option()
@click.option("--params-file", metavar="FILE", help="Read parameters from a YAML or JSON file; -p takes precedence.")
@click.option("--only", multiple=True, metavar="TASK", help="Run only this task; may be repeated.")
@click.option("--until", multiple=True, metavar="TASK", help="Run this task and what it needs; may be repeated.")
@click.option("--max-parallel", type=click.IntRange(1), metavar="N", help="At most N tasks at once.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of the run; tasks read it as `run.seed`.")
@click.option("--force", is_flag=True, help="Run every task, even those that `fresh` finds done.")
@click.option("--dry-run", is_flag=True, help="Simulate the plan: decide everything, run nothing.")
@click.option("--preview", metavar="FILE", help="Refuse with code 10 unless the run matches this saved preview.")
@click.option("--trust", metavar="DIGEST", help="Run a plan from outside the project if this is its digest.")
@click.option("--allow-outside", multiple=True, metavar="PATH", help="Let tasks also act in PATH, outside the project.")
@click.option("--group", metavar="NAME", help="Of the runs of one group one goes on at a time; this one waits.")
@click.option(
    "--overlap",
    type=click.Choice(["queue", "skip", "cancel"]),
    help="While another run of the group goes on: wait (queue), exit with code 9 (skip), cancel that one (cancel).",
)
@click.option("--detach", is_flag=True, help="Put the run into the queue and return; a worker runs it.")
@result_option
@click.option(
    "--progress",
    type=click.Choice(PROGRESS),
    default="auto",
    help="How progress is shown (auto: tree on a terminal, github in its Actions, plain elsewhere).",
)
@output_option
@unattended_option
@no_wait_option
@no_sandbox_option
@click.pass_context
def exec_command(ctx: click.Context, /, **options: Any) -> int:
    """Run a plan. PLAN is the name of one (`release` for `plans/release.yaml`), its path, or `-` for a plan in YAML on
    standard input. Without PLAN the plans of the project are listed.

    \b
    Examples:
      planrunner exec plans/release.yaml
      planrunner exec release
      planrunner exec plans/release.yaml -p ref=v1.2 --until test
      planrunner exec plans/release.yaml --json > result.json
    """
    if options["plan"] is None:
        return plan_missing(messages(given_settings(ctx)))
    if options.pop("detach"):
        detach = import_module("planrunner.cli.queue").detach  # by name: a run without it loads nothing of the queue
        return int(detach(given_settings(ctx), ExecOptions(**options)))
    return runner.exec_plan(given_settings(ctx), ExecOptions(**options))
