"""``planrunner fork``."""

from __future__ import annotations

import json

import click

from planrunner.app.forking import Forked, ForkRequest, fork
from planrunner.app.revising import ReviseRequest
from planrunner.cli.completion import RUN
from planrunner.cli.exec import pairs
from planrunner.cli.filesback import Manner, put_back
from planrunner.cli.group import given_settings
from planrunner.cli.revise import revised_first


@click.command("fork")
@click.argument("run", shell_complete=RUN)
@click.option(
    "--from", "checkpoint", default="", metavar="CHECKPOINT", help="A checkpoint, or a task for its last one."
)
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="After this entry of the journal instead.")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help="Set a parameter anew."
)
@click.option(
    "--plan", "mended", metavar="FILE", type=click.Path(), help="Revise the new run: it has this mended plan."
)
@click.option("--restore-files", is_flag=True, help="Make the files of the directory what they were then.")
@click.option("--yes", is_flag=True, help="Do not ask before files change.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def fork_command(
    ctx: click.Context,
    /,
    run: str,
    checkpoint: str,
    at: int | None,
    params: tuple[tuple[str, str], ...],
    mended: str | None,
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
    if at is not None and checkpoint:
        raise click.UsageError("give --from or --at, not both")
    given = given_settings(ctx)
    request = ForkRequest(run, checkpoint, at, () if mended else params, given.state)
    restored = None
    if restore_files:
        restored = put_back(request, given, Manner(yes, as_json))
    made = fork(request)
    tell_of_files(made)
    if mended is not None:
        revised_first(given, ReviseRequest(made.run_id, mended, params), as_json)
    if as_json:
        files = {} if restored is None else restored.data()
        click.echo(json.dumps({"format": 1, **made._asdict(), **files}, indent=2, ensure_ascii=False))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    if at is not None and made.seq != at:
        where += f" (with which what was decided together with entry {at} ends)"
    click.echo(made.run_id)
    click.echo(f"goes on from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0


def tell_of_files(made: Forked) -> None:
    """Say that files are not as they were, where nobody asked to have them put back."""
    if made.files:
        count = f"{made.files} {'path is' if made.files == 1 else 'paths are'}"
        click.echo(f"{count} not as at the checkpoint: --restore-files shows which and puts them back", err=True)
