"""``planrunner runs``."""

from __future__ import annotations

import time
from typing import Any

import click

from planrunner.app.history.digest import DigestRequest, digest, worded
from planrunner.app.history.prune import prune
from planrunner.app.history.show import STATUSES, RunQuery, recent_runs
from planrunner.app.people.questions import project_questions
from planrunner.cli.completion import RUN
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import Duration, Time, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import note_stranger, output
from planrunner.journal.workspace import find_project
from planrunner.views.artifacts import pruned as lines
from planrunner.views.digest import digest_lines, digest_object, worded_lines
from planrunner.views.documents import document_of, listing
from planrunner.views.run import listed_object
from planrunner.views.status import run_words
from planrunner.views.terminal import duration_text, table

_DAY = 86400.0


@click.group("runs", cls=CommandGroup, default="list")
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
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N (20).")
@click.option("--skip", type=click.IntRange(0), metavar="N", help="Skip the first N: the next page.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--plan", metavar="ID", help="Only runs of this plan.")
@click.option("--since", type=Time(), metavar="TIME", help="Started then or later: `2h` ago, or a date.")
@click.option("--until", type=Time(), metavar="TIME", help="Started before that.")
@json_option
@click.pass_context
def list_runs(ctx: click.Context, /, as_json: bool, **options: Any) -> int:
    """List runs, the newest first."""
    given = given_settings(ctx)
    query = RunQuery(**{name: value for name, value in options.items() if value is not None})
    runs = recent_runs(given.state, query)
    note_stranger(given)
    if as_json:
        print_document(listing("runs", map(listed_object, runs)))
        return 0
    if not runs:
        click.echo("no runs" if query == RunQuery(limit=query.limit) else "no runs match", err=True)
        return 0
    screen = output(given)
    rows = [
        (
            run.run,
            run.plan_id,
            f"{screen.sign(run.status)} {run_words(run.status, run.reason)}",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created)),
            duration_text(run.ended - run.created) if run.ended is not None else "",
        )
        for run in runs
    ]
    screen.write("\n".join(table(screen, ("RUN", "PLAN", "STATUS", "STARTED", "TOOK"), rows)) + "\n")
    return 0


@runs_command.command("digest")
@click.argument("runs", nargs=-1, shell_complete=RUN, metavar="[RUN]...")
@click.option("--since", type=Time(), metavar="TIME", help="The start of the period (1d ago): `2h` ago, or a date.")
@click.option("--model", metavar="NAME", default="", help="Add a summary by a model of planrunner.yaml.")
@json_option
@click.pass_context
def digest_runs(ctx: click.Context, /, runs: tuple[str, ...], since: float | None, model: str, as_json: bool) -> int:
    """Summarize progress and blockers: open gates and how long they have waited, failures with their causes, completed
    tasks, next tasks.

    Without RUN: all open runs, and those that started or ended in the period. The facts come from the journal. With
    --model a model adds a summary, in a run of its own; it has no effect on the runs.
    """
    settings, now = given_settings(ctx), time.time()
    request = DigestRequest(now - _DAY if since is None else since, runs, settings.state)
    digested = digest(request)
    note_stranger(settings)
    told = worded(request, digested, model) if model else None
    asked = [] if runs else project_questions(find_project(None))
    if as_json:
        words = {} if told is None else {"words": told._asdict()}
        print_document({**digest_object(digested, request.since, asked), **words})
        return 0
    screen = output(settings)
    lines = digest_lines(screen, digested, request.since, now, asked)
    screen.write("\n".join([*lines, *(worded_lines(told) if told is not None else ())]) + "\n")
    return 0


@runs_command.command("prune")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the N newest runs.")
@click.option(
    "--older-than", type=Duration(), metavar="TIME", help="Remove only runs that ended at least this long ago."
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@json_option
@click.pass_context
def prune_runs(ctx: click.Context, /, keep: int | None, older_than: float | None, dry_run: bool, as_json: bool) -> int:
    """Remove runs that have ended, with their events, plans, logs, notes and the artifacts that only they kept.

    Artifacts go with their run, whatever their retention; --dry-run names those whose time is not over.
    A run that is running, waits, is paused, in doubt or being rolled back stays. `audit verify` counts the runs that
    were pruned. Give --keep, --older-than, or both.
    """
    if keep is None and older_than is None:
        raise click.UsageError("`runs prune` needs --keep N, --older-than TIME, or both", ctx)
    asked: dict[str, Any] = {"keep": keep, "older_than": older_than, "dry_run": dry_run or None}
    settings = given_settings(ctx)
    report = prune(settings.state, **{name: value for name, value in asked.items() if value is not None})
    if as_json:
        print_document(document_of(report))
    else:
        output(settings).write("\n".join(lines(report)) + "\n")
    return 0
