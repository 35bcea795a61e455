"""``planrunner fork``."""

from __future__ import annotations

import json

import click

from planrunner.cli.exec import pairs
from planrunner.cli.group import given_settings


@click.command("fork")
@click.argument("run")
@click.option(
    "--from", "checkpoint", default="", metavar="CHECKPOINT", help="A checkpoint, or a task for its last one."
)
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="After this entry of the journal instead.")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help="Set a parameter anew."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    run: str,
    checkpoint: str,
    at: int | None,
    params: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Make a new run that goes on from a checkpoint of another one (the last, where none is named), and print its id.
    Nothing is started: `planrunner resume` does that. The run it comes from stays as it is.

    \b
    Examples:
      planrunner fork last --from build
      planrunner fork 20261121-2259 --at 17 -p stage=prod
    """
    from planrunner.app.forking import ForkRequest, fork

    if at is not None and checkpoint:
        raise click.UsageError("give --from or --at, not both")
    given = given_settings(ctx)
    made = fork(ForkRequest(run, checkpoint, at, params, given.state))
    if as_json:
        click.echo(json.dumps({"format": 1, **made._asdict()}, indent=2, ensure_ascii=False))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    click.echo(made.run_id)
    click.echo(f"goes on from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0
