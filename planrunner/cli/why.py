"""``planrunner why``."""

from __future__ import annotations

import json

import click

from planrunner.app.inspect import look, why_task
from planrunner.cli.completion import RUN_OR_TASK
from planrunner.cli.group import given_settings
from planrunner.views.terminal import harmless


@click.command("why")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TASK", shell_complete=RUN_OR_TASK)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def why_command(ctx: click.Context, /, words: tuple[str, ...], as_json: bool) -> int:
    """Tell why a task ran, waited, was skipped, was tried again or failed. Without RUN it is the last one.

    TASK is a path as the run shows it (`polish#2/draft`, `fan[3]`), or the end of one that no other task has; a round
    of a loop (`polish#2`) is explained as a whole.

    \b
    Examples:
      planrunner why explain
      planrunner why 20261121-2259 sign-off
      planrunner why last 'fan[3]'
    """
    if len(words) > 2:
        raise click.UsageError("give a run and a task, or a task")
    run = words[0] if len(words) == 2 else "last"
    found = look(run, given_settings(ctx).state)
    told = why_task(found, words[-1])
    if as_json:
        answer = {"format": 1, "run_id": found.row.run, **told._asdict()}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(harmless(line) for line in told.why))
    return 0
