"""``planrunner runs``."""

from __future__ import annotations

import json
import time

import click

from planrunner.cli.group import given_settings
from planrunner.cli.settings import output

_STATUSES = ["running", "paused", "blocked", "completed", "failed", "cancelled"]


@click.command("runs")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most N (20).")
@click.option("--status", type=click.Choice(_STATUSES), help="Only runs that stand so.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, /, limit: int, status: str | None, as_json: bool) -> int:
    """List runs, the newest first.

    \b
    Examples:
      planrunner runs --status failed
      planrunner runs --json --limit 100
    """
    from planrunner.app.inspect import recent_runs
    from planrunner.views.symbols import duration_text
    from planrunner.views.table import table

    given = given_settings(ctx)
    found = recent_runs(given.state, limit, status)
    if as_json:
        click.echo(json.dumps({"format": 1, "runs": [run._asdict() | {"run_id": run.run} for run in found]}, indent=2))
        return 0
    if not found:
        click.echo("no runs" + (f" that are {status}" if status else ""), err=True)
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
