"""``planrunner reject``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.cli.completion import GATE, RUN
from planrunner.cli.group import given_settings
from planrunner.cli.voting import cast, voting_options


@click.command("reject")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.option("--reason", required=True, metavar="TEXT", help="Why; handed to the tasks that are done again.")
@click.option("--rework", is_flag=True, help="Only if that sends the run back instead of failing the gate.")
@voting_options
@click.pass_context
def reject_command(ctx: click.Context, /, run: str, gate: str, go_on: bool, as_json: bool, **body: Any) -> int:
    """Reject what a gate asks: one rejection by somebody who may decide is enough.

    What follows is the plan's to say (`on_reject`): the gate fails, another task runs, or the run goes back to an
    earlier task with your reason as the comment. A budget that is rejected stops what it is for.

    \b
    Examples:
      planrunner reject last sign-off --reason "the second figure is wrong"
      planrunner reject last sign-off --reason "shorter, please" --rework --resume
    """
    return cast(given_settings(ctx), run, gate, {"verdict": "reject", **body}, go_on=go_on, as_json=as_json)
