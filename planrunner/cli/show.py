"""``planrunner show``."""

from __future__ import annotations

import json

import click

from planrunner.cli.group import given_settings
from planrunner.cli.settings import note_stranger, output


@click.command("show")
@click.argument("run", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON object that `exec --json` prints.")
@click.option("--all", "whole", is_flag=True, help="List every task, whatever there is to tell of it.")
@click.option("--timeline", is_flag=True, help="Add a bar for each attempt.")
@click.pass_context
def command(ctx: click.Context, /, run: str, as_json: bool, whole: bool, timeline: bool) -> int:
    """Show how a run stands or ended. RUN is an id, the start of one, or `last`.

    \b
    Examples:
      planrunner show
      planrunner show 20261121 --json
      planrunner show last --timeline
    """
    from planrunner.app.inspect import look
    from planrunner.views.run import run_object

    given = given_settings(ctx)
    found = look(run, given.state)
    note_stranger(given)
    now = found.now
    if as_json:
        data = run_object(found.state, found.row.plan_digest, found.exit_code, now)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        return 0
    from planrunner.views.ending import ending
    from planrunner.views.tree import tree

    screen = output(given)
    lines = tree(screen, found.state, now, whole)
    if timeline:
        from planrunner.views import timeline as picture

        lines += ["", *picture.timeline(screen, picture.bars(found.entries), now), ""]
    screen.write("\n".join([*lines, *ending(screen, found.state, found.row.run, found.source)]) + "\n")
    return 0
