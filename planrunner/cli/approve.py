"""``planrunner approve``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.cli.completion import GATE, RUN
from planrunner.cli.group import given_settings
from planrunner.cli.voting import amounts, cast, voting_options


@click.command("approve")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the decision.")
@click.option(
    "--add", multiple=True, metavar="WHAT=AMOUNT", callback=amounts, help="Of a budget: how much more; may be repeated."
)
@voting_options
@click.pass_context
def approve_command(ctx: click.Context, /, run: str, gate: str, go_on: bool, as_json: bool, **body: Any) -> int:
    """Approve what a gate asks. GATE is the path of a task, the end of one, or a pattern such as `each[*]/sign`.

    The approval is for what the gate shows now and nothing else: with --shown it is refused when that is not what you
    looked at. A budget that tasks wait for (`budget`, or TASK/budget) is approved of with --add.

    \b
    Examples:
      planrunner approve last sign-off --reason "the notes are complete"
      planrunner approve last sign-off --as ana --role release --shown 1f2e3d4c5b6a
      planrunner approve last 'deploy[*]/sign' --resume
      planrunner approve last budget --add 'cost=$2' --resume
    """
    return cast(given_settings(ctx), run, gate, {"verdict": "approve", **body}, go_on=go_on, as_json=as_json)
