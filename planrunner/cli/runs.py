"""``planrunner runs``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from planrunner.app.queries import STATUSES, RunQuery
from planrunner.cli.group import given_settings
from planrunner.cli.moments import Moment
from planrunner.cli.settings import note_stranger, output


@click.command("runs")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most N (20).")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Leave out the first N: the next page.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs that stand so.")
@click.option("--plan", default="", metavar="ID", help="Only runs of this plan.")
@click.option("--since", type=Moment(), metavar="TIME", help="Begun then or later: `2h` ago, or a date.")
@click.option("--until", type=Moment(), metavar="TIME", help="Begun before that.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **asked: Any) -> int:
    """List runs, the newest first.

    \b
    Examples:
      planrunner runs --status failed --plan release --since 7d
      planrunner runs --json --limit 100 --skip 100
    """
    from planrunner.app.inspect import recent_runs
    from planrunner.views.symbols import duration_text
    from planrunner.views.table import table

    given = given_settings(ctx)
    query = RunQuery(**asked)
    found = recent_runs(given.state, query)
    note_stranger(given)
    if as_json:
        click.echo(json.dumps({"format": 1, "runs": [run._asdict() | {"run_id": run.run} for run in found]}, indent=2))
        return 0
    if not found:
        click.echo("no runs" if query == RunQuery(limit=query.limit) else "no runs fit that", err=True)
        return 0
    screen = output(given)
    rows = [
        (
            run.run,
            run.plan_id,
            f"{screen.sign(run.status)} {run.status}" + (f" ({run.reason})" if run.reason else ""),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created)),
            duration_text(run.ended - run.created) if run.ended is not None else "",
        )
        for run in found
    ]
    screen.write("\n".join(table(screen, ("RUN", "PLAN", "STATUS", "STARTED", "TOOK"), rows)) + "\n")
    return 0
