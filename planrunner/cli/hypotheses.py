"""``planrunner hypotheses``."""

from __future__ import annotations

import click

from planrunner.app.history.show import look
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import note_stranger, output
from planrunner.views.hypotheses import hypotheses_document, hypotheses_lines


@click.command("hypotheses")
@click.argument("run", default="last", shell_complete=RUN)
@json_option
@click.pass_context
def hypotheses_command(ctx: click.Context, /, run: str, as_json: bool) -> int:
    """Show the hypotheses of a run: the confidence in each, and the evidence.

    A confidence is computed from the prior and the evidence of tasks by Bayes' rule. RUN is an id, a prefix of an id,
    or `last`.

    \b
    Examples:
      planrunner hypotheses
      planrunner hypotheses last --json
    """
    settings = given_settings(ctx)
    looked = look(run, settings.state)
    note_stranger(settings)
    if as_json:
        print_document(hypotheses_document(looked.state))
        return 0
    screen = output(settings)
    lines = hypotheses_lines(screen, looked.state)
    if not lines:
        click.echo(f"the plan of run {looked.row.run} declares no hypotheses", err=True)
        return 0
    screen.write("\n".join(lines) + "\n")
    return 0
