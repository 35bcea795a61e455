"""``planrunner pause``."""

from __future__ import annotations

import click

from planrunner.app.control import steer
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.steering import report_steered, tell


@click.command("pause")
@click.argument("run", shell_complete=RUN)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def pause_command(ctx: click.Context, /, run: str, reason: str, as_json: bool) -> int:
    """Let what runs end, start nothing more, and park the run. RUN is an id, the start of one, or `last`.

    The process that holds the run leaves with code 8; `planrunner resume` goes on.

    \b
    Examples:
      planrunner pause last
      planrunner pause 20261121 --reason "the network is being mended"
    """
    steered = steer(run, "pause", {"reason": reason} if reason else {}, given_settings(ctx).state, tell=tell)
    return report_steered(steered, as_json)
