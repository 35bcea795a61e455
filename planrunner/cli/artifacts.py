"""``planrunner artifacts``."""

from __future__ import annotations

import os
import sys

import click

from planrunner.app.history.artifacts import (
    GRACE,
    Wanted,
    collected,
    damaged,
    found,
    listed,
    origin_object,
    shown,
    verified,
    version_object,
    written,
)
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import Duration, json_option
from planrunner.cli.output import byte_writer, print_document
from planrunner.cli.settings import emit, output
from planrunner.errors import FAILED
from planrunner.knowledge.archives import unpack
from planrunner.views.artifacts import checked, details, rows
from planrunner.views.artifacts import collected as lines
from planrunner.views.documents import document_of, listing


@click.group("artifacts", cls=CommandGroup, default="list")
def artifacts_command() -> None:
    """List, read, verify and clean up the artifacts that runs kept.

    \b
    Examples:
      planrunner artifacts --plan release --type junit
      planrunner artifacts show release/test/junit@last
      planrunner artifacts get release/test/junit@2 -o junit.xml
      planrunner artifacts gc --dry-run
    """


@artifacts_command.command("list")
@click.option("--plan", metavar="ID", help="Only artifacts of this plan.")
@click.option("--task", metavar="TASK", help="Only artifacts of this task.")
@click.option("--name", metavar="NAME", help="Only artifacts of this name.")
@click.option("--type", metavar="TYPE", help="Only artifacts of this type.")
@click.option("--run", metavar="RUN", help="Only artifacts of this run.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most N (50).")
@json_option
@click.pass_context
def list_artifacts(ctx: click.Context, /, limit: int, as_json: bool, **options: str | None) -> int:
    """List artifacts, the newest version first."""
    settings, wanted = given_settings(ctx), {name: value for name, value in options.items() if value is not None}
    versions = listed(Wanted(**wanted), settings.state)
    first = [version_object(version) for version in versions[:limit]]
    if as_json:
        print_document(listing("artifacts", first, total=len(versions)))
    elif not versions:
        click.echo("no artifacts match" if wanted else "no run has kept an artifact", err=True)
    else:
        output(settings).write("\n".join(rows(output(settings), first)) + "\n")
        if len(versions) > limit:
            click.echo(f"{len(versions) - limit} more: --limit {len(versions)} lists all", err=True)
    return 0


@artifacts_command.command("show")
@click.argument("ref")
@json_option
@click.pass_context
def show_artifact(ctx: click.Context, /, ref: str, as_json: bool) -> int:
    """Show where an artifact came from.

    REF is plan/task/name, the end of that, or a digest; `@3` after it selects the third version, `@RUN` the version of
    a run. Without it, the newest version is meant.
    """
    settings = given_settings(ctx)
    origin = shown(ref, settings.state)
    data = origin_object(origin)
    return emit(settings, document_of(data) if as_json else details(data))


@artifacts_command.command("get")
@click.argument("ref")
@click.option(
    "-o",
    "--output",
    "target",
    default="",
    metavar="FILE",
    help="Where to write: a file, or a folder for a file of its own name; `-` is standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
@click.pass_context
def get_artifact(ctx: click.Context, /, ref: str, target: str, force: bool, as_json: bool) -> int:
    """Write the content of an artifact to a file. REF is as for `show`."""
    version, store = found(ref, given_settings(ctx).state)
    if target == "-":
        if not store.is_whole(version.sha256):
            raise damaged(version)
        write = byte_writer()
        with store.open(version.sha256) as source:
            while data := source.read(1 << 20):
                write(data)
        sys.stdout.flush()
        return 0
    own = os.path.basename(version.path.rstrip("/") or version.name.rstrip("/")) or "artifact"
    if not target or (version.type != "directory" and os.path.isdir(target)):
        target = os.path.join(target, own)
    if version.type == "directory":
        if not store.is_whole(version.sha256):
            raise damaged(version)
        with store.open(version.sha256) as source:
            unpack(source, target)
    else:
        written(version, store, target, force)
    if as_json:
        print_document(document_of(version_object(version), {"file": os.path.abspath(target)}))
    else:
        click.echo(f"{version.ref} is in {target}", err=True)
    return 0


@artifacts_command.command("verify")
@json_option
@click.pass_context
def verify_artifacts(ctx: click.Context, /, as_json: bool) -> int:
    """Compare the content of all artifacts with their digests; exit code 1 where one is damaged or lost."""
    settings = given_settings(ctx)
    report = verified(settings.state)
    emit(settings, document_of(report) if as_json else checked(*report))
    return FAILED if report.damaged or report.lost else 0


@artifacts_command.command("gc")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option(
    "--older-than",
    type=Duration(),
    default=GRACE,
    metavar="TIME",
    help="Keep unreferenced content that is younger than this (1d).",
)
@json_option
@click.pass_context
def collect_artifacts(ctx: click.Context, /, dry_run: bool, older_than: float, as_json: bool) -> int:
    """Remove content that nothing refers to."""
    settings = given_settings(ctx)
    report = {**collected(settings.state, older_than, dry_run)._asdict(), "dry_run": dry_run}
    return emit(settings, document_of(report) if as_json else lines(report))
