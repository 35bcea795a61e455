"""``planrunner runs digest`` and ``planrunner runs prune``."""

from __future__ import annotations

import time
from typing import Any

import click

from planrunner.app.history.digest import DigestRequest, digest, worded
from planrunner.app.history.prune import prune
from planrunner.app.people.questions import project_questions
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import Duration, Time, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, note_stranger, output
from planrunner.journal.workspace import find_project
from planrunner.views.artifacts import pruned as lines
from planrunner.views.digest import digest_lines, digest_object, worded_lines
from planrunner.views.documents import document_of

_DAY = 86400.0


@click.command("digest")
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


@click.command("prune")
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
    return emit(settings, document_of(report) if as_json else lines(report))
