"""``planrunner checkpoints``."""

from __future__ import annotations

import json
import time

import click

from planrunner.cli.group import given_settings
from planrunner.cli.settings import output


@click.command("checkpoints")
@click.argument("run", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, /, run: str, as_json: bool) -> int:
    """List the places that a run can be taken up from: one for each completed task. RUN is an id, the start of one, or
    `last`.

    \b
    Examples:
      planrunner checkpoints last
      planrunner resume last --from cp-build
    """
    from planrunner.app.forking import checkpoints
    from planrunner.views.table import table
    from planrunner.views.terminal import harmless

    given = given_settings(ctx)
    row, found = checkpoints(run, given.state)
    if as_json:
        listed = [one._asdict() for one in found]
        click.echo(json.dumps({"format": 1, "run_id": row.run, "checkpoints": listed}, indent=2, ensure_ascii=False))
    elif found:
        rows = [(harmless(one.name), str(one.seq), _clock(one.at)) for one in found]
        click.echo("\n".join(table(output(given), ("checkpoint", "entry", "completed"), rows)))
    else:
        click.echo(f"run {row.run} has no checkpoints: no task completed before it ended", err=True)
    return 0


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
