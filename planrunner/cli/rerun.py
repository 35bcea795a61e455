"""``planrunner rerun``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.app.rerun import RerunRequest
from planrunner.cli.anew import anew_options, begin
from planrunner.cli.group import given_settings


@click.command("rerun")
@click.argument("run")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option("--downstream", is_flag=True, help="Begin everything after them anew as well, whatever its inputs.")
@click.option("--only-failed", is_flag=True, help="Leave tasks that went well as they are.")
@anew_options
@click.pass_context
def command(
    ctx: click.Context, /, run: str, tasks: tuple[str, ...], downstream: bool, only_failed: bool, **how: Any
) -> int:
    """Begin tasks of a run anew, also of one that has completed.

    What comes after them runs again where it would be called otherwise by then, and keeps its result where it would
    not; so does every task inside a subplan, a loop or a fan-out. What stands under `finally` runs again.

    \b
    Examples:
      planrunner rerun last build --preview
      planrunner rerun last build --downstream
      planrunner rerun last "fetch[3]"
    """
    return begin(given_settings(ctx), RerunRequest(run, tasks, False, downstream, only_failed), **how)
