"""``planrunner rerun``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.app.rerun import RerunRequest
from planrunner.cli.anew import anew_options, begin
from planrunner.cli.completion import RUN, TASK
from planrunner.cli.group import given_settings
from planrunner.errors import UsageError


@click.command("rerun")
@click.argument("run", shell_complete=RUN)
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...", shell_complete=TASK)
@click.option("--downstream", is_flag=True, help="Begin everything after them anew, whatever it declares.")
@click.option("--keep-unchanged", is_flag=True, help="Keep every result after them whose call is the same.")
@click.option("--only-failed", is_flag=True, help="Leave tasks that went well as they are.")
@anew_options
@click.pass_context
def rerun_command(ctx: click.Context, /, run: str, tasks: tuple[str, ...], **how: Any) -> int:
    """Begin tasks of a run anew, also of one that has completed.

    What comes after them runs again, inside subplans, loops and fan-outs too. A result is kept only where its inputs
    are equal and the task is pure, declares `effect: read` or asks a model, or where its `fresh` says so. What stands
    under `finally` runs again.

    \b
    Examples:
      planrunner rerun last build --preview
      planrunner rerun last build --keep-unchanged
      planrunner rerun last "fetch[3]"
    """
    wide = {name: bool(how.pop(name)) for name in ("downstream", "keep_unchanged", "only_failed")}
    if wide["downstream"] and wide["keep_unchanged"]:
        raise UsageError("--downstream and --keep-unchanged exclude each other", "planrunner rerun --help")
    return begin(given_settings(ctx), RerunRequest(run, tasks, **wide), **how)
