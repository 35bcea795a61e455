"""``planrunner runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planrunner.app.follow.summaries import STATUSES, RunFilter, recent
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import Time, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import note_stranger, output
from planrunner.later import Later
from planrunner.views.runs import run_lines

if TYPE_CHECKING:
    from planrunner.views.documents import listing
    from planrunner.views.runs import listed_object
else:
    listing = Later("planrunner.views.documents:listing")
    listed_object = Later("planrunner.views.runs:listed_object")


_LATER = {"digest": "planrunner.cli.digest:digest_runs", "prune": "planrunner.cli.digest:prune_runs"}


@click.group("runs", cls=CommandGroup, default="list", later=_LATER)
def runs_command() -> None:
    """List runs, summarize their progress, and remove old ones.

    \b
    Examples:
      planrunner runs --status failed --plan release --since 7d
      planrunner runs --json --limit 100 --skip 100
      planrunner runs digest --since 7d
      planrunner runs prune --keep 50 --older-than 30d --dry-run
    """


@runs_command.command("list")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most N (20).")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Skip the first N: the next page.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--plan", default="", metavar="ID", help="Only runs of this plan.")
@click.option("--since", type=Time(), metavar="TIME", help="Started then or later: `2h` ago, or a date.")
@click.option("--until", type=Time(), metavar="TIME", help="Started before that.")
@json_option
@click.pass_context
def list_runs(
    ctx: click.Context,
    /,
    as_json: bool,
    limit: int,
    skip: int,
    status: str | None,
    plan: str,
    since: float | None,
    until: float | None,
) -> int:
    """List runs, the newest first."""
    given = given_settings(ctx)
    wanted = RunFilter((status,) if status else (), plan, since=since, until=until)
    runs = recent(given.state, wanted, limit, skip)
    note_stranger(given)
    if as_json:
        print_document(listing("runs", map(listed_object, runs)))
    elif runs:
        screen = output(given)
        screen.write("\n".join(run_lines(screen, runs)) + "\n")
    else:
        click.echo("no runs" if wanted == RunFilter() and not skip else "no runs match", err=True)
    return 0
