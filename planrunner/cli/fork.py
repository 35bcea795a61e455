"""``planrunner fork``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from planrunner.cli.exec import pairs
from planrunner.cli.group import given_settings
from planrunner.errors import UsageError

if TYPE_CHECKING:
    from planrunner.app.forking import ForkRequest
    from planrunner.cli.settings import Settings


@click.command("fork")
@click.argument("run")
@click.option(
    "--from", "checkpoint", default="", metavar="CHECKPOINT", help="A checkpoint, or a task for its last one."
)
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="After this entry of the journal instead.")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help="Set a parameter anew."
)
@click.option("--restore-files", is_flag=True, help="Put files back that tasks had kept as artifacts by then.")
@click.option("--yes", is_flag=True, help="Do not ask before files are written.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    run: str,
    checkpoint: str,
    at: int | None,
    params: tuple[tuple[str, str], ...],
    restore_files: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make a new run that goes on from a checkpoint of another one (the last, where none is named), and print its id.
    Nothing is started: `planrunner resume` does that. The run it comes from stays as it is.

    \b
    Examples:
      planrunner fork last --from build
      planrunner fork 20261121-2259 --at 17 -p stage=prod
      planrunner fork last --from build --restore-files
    """
    from planrunner.app.forking import ForkRequest, fork

    if at is not None and checkpoint:
        raise click.UsageError("give --from or --at, not both")
    given = given_settings(ctx)
    request = ForkRequest(run, checkpoint, at, params, given.state)
    if restore_files:
        put_back(request, given, yes)
    made = fork(request)
    if as_json:
        click.echo(json.dumps({"format": 1, **made._asdict()}, indent=2, ensure_ascii=False))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    click.echo(made.run_id)
    click.echo(f"goes on from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0


def put_back(request: ForkRequest, given: Settings, yes: bool) -> None:
    """Show which files would be written, ask, and write them. Raises UsageError where nobody says yes."""
    from planrunner.app.forking import files_at
    from planrunner.app.restoring import restore

    state_dir, files = files_at(request)
    for file in files:
        if file.how != "same":
            what = f"write {file.path}: it {_IS[file.how]}" if file.to_write else f"leave out {file.path}: {file.how}"
            click.echo(what, err=True)
    if not any(file.to_write for file in files):
        click.echo("no file has to be put back", err=True)
        return
    asks = not yes and sys.stdin.isatty() and not given.no_input
    if not yes and not (asks and click.confirm("write these files?", err=True)):
        raise UsageError("nothing was written and no run was made", "say --yes to write these files")
    for file, before in restore(files, state_dir):
        kept = f"; what it was is kept as artifact {before[:12]}" if before else ""
        click.echo(f"wrote {file.path}{kept}", err=True)


_IS = {"missing": "is missing", "differs": "has another content"}
