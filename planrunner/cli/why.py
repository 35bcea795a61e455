"""``planrunner why``."""

from __future__ import annotations

import json

import click

from planrunner.cli.group import given_settings


@click.command("why")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TASK")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], as_json: bool) -> int:
    """Tell why a task ran, waited, was skipped, was tried again or failed. Without RUN it is the last one.

    \b
    Examples:
      planrunner why explain
      planrunner why 20261121-2259 sign-off
    """
    from planrunner.app.inspect import look, why_task
    from planrunner.views.run import shown_status
    from planrunner.views.terminal import harmless

    if len(words) > 2:
        raise click.UsageError("give a run and a task, or a task")
    run = words[0] if len(words) == 2 else "last"
    found = look(run, given_settings(ctx).state)
    lines = why_task(found, words[-1])
    if as_json:
        status = shown_status(found.state, found.state.tasks[found.state.index[words[-1]]])
        answer = {"format": 1, "run_id": found.row.run, "task": words[-1], "status": status, "why": lines}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(harmless(line) for line in lines))
    return 0
