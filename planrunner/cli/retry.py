"""``planrunner retry``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.app.rerun import RerunRequest
from planrunner.cli.anew import anew_options, begin
from planrunner.cli.completion import RUN, TASK
from planrunner.cli.group import given_settings


@click.command("retry")
@click.argument("run", shell_complete=RUN)
@click.argument("tasks", nargs=-1, metavar="[TASK]...", shell_complete=TASK)
@anew_options
@click.pass_context
def retry_command(ctx: click.Context, /, run: str, tasks: tuple[str, ...], **how: Any) -> int:
    """Begin anew what failed, was cancelled or was undone, with what did not come about because of it, and go on.

    A failed item of a fan-out, or a failed step of a subplan, is tried again alone; what went well stays. What stands
    under `finally` runs again.

    \b
    Examples:
      planrunner retry last
      planrunner retry last "fetch[3]"
      planrunner retry last "polish#2/draft"
    """
    return begin(given_settings(ctx), RerunRequest(run, tasks, retry=True), **how)
