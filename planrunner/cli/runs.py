"""``planrunner runs``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from planrunner.app.digest import digest
from planrunner.app.inspect import recent_runs
from planrunner.app.pruning import prune
from planrunner.app.queries import STATUSES, RunQuery
from planrunner.cli.group import given_settings
from planrunner.cli.options import Lasting, Moment
from planrunner.cli.settings import note_stranger, output
from planrunner.views.artifacts import pruned as lines
from planrunner.views.digest import digest_lines, digest_object
from planrunner.views.run import listed_object
from planrunner.views.terminal import duration_text, table

_TAKES = {
    "list": frozenset({"limit", "skip", "status", "plan", "since", "until"}),
    "digest": frozenset({"since"}),
    "prune": frozenset({"keep", "older_than", "dry_run"}),
}
"""The options of each action beside ``--json``."""
_DAY = 86400.0


@click.command("runs")
@click.argument("action", type=click.Choice(tuple(_TAKES)), default="list")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N (20).")
@click.option("--skip", type=click.IntRange(0), metavar="N", help="Leave out the first N: the next page.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs that stand so.")
@click.option("--plan", metavar="ID", help="Only runs of this plan.")
@click.option("--since", type=Moment(), metavar="TIME", help="Begun then or later: `2h` ago, or a date.")
@click.option("--until", type=Moment(), metavar="TIME", help="Begun before that.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="`prune`: spare the N newest runs.")
@click.option("--older-than", type=Lasting(), metavar="TIME", help="`prune`: only runs that ended so long ago.")
@click.option("--dry-run", is_flag=True, default=None, help="`prune`: only tell what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def runs_command(ctx: click.Context, /, action: str, as_json: bool, **options: Any) -> int:
    """List runs, the newest first (`list`), sum up progress and blockers of what is open or began or ended since a
    moment, a day ago by default (`digest`), or remove runs that have ended, with their events, plans, logs, notes and
    the artifacts that only they kept (`prune`). A run that is at work, waits, is paused, in doubt or being rolled back
    stays. `audit verify` counts the runs that were pruned.

    \b
    Examples:
      planrunner runs --status failed --plan release --since 7d
      planrunner runs --json --limit 100 --skip 100
      planrunner runs digest --since 7d
      planrunner runs prune --keep 50 --older-than 30d --dry-run
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in _TAKES[action]:
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with `runs {action}`", ctx)
    if action == "prune":
        if not given.keys() & {"keep", "older_than"}:
            raise click.UsageError("`runs prune` needs --keep N, --older-than TIME, or both", ctx)
        return _prune(ctx, as_json, given)
    if action == "digest":
        return _digest(ctx, as_json, given.get("since"))
    return _list(ctx, as_json, given)


def _digest(ctx: click.Context, as_json: bool, since: float | None) -> int:
    settings, now = given_settings(ctx), time.time()
    start = now - _DAY if since is None else since
    runs = digest(start, settings.state)
    note_stranger(settings)
    if as_json:
        click.echo(json.dumps(digest_object(runs, start), indent=2, ensure_ascii=False))
    else:
        screen = output(settings)
        screen.write("\n".join(digest_lines(screen, runs, start, now)) + "\n")
    return 0


def _prune(ctx: click.Context, as_json: bool, asked: dict[str, Any]) -> int:
    settings = given_settings(ctx)
    told = prune(settings.state, **asked)
    if as_json:
        click.echo(json.dumps({"format": 1, **told}, indent=2, ensure_ascii=False))
    else:
        output(settings).write("\n".join(lines(told)) + "\n")
    return 0


def _list(ctx: click.Context, as_json: bool, asked: dict[str, Any]) -> int:
    given = given_settings(ctx)
    query = RunQuery(**asked)
    found = recent_runs(given.state, query)
    note_stranger(given)
    if as_json:
        click.echo(json.dumps({"format": 1, "runs": [listed_object(run) for run in found]}, indent=2))
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
