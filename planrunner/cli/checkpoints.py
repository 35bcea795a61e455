"""``planrunner checkpoints``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from planrunner.app.checkpoints import look
from planrunner.app.forking import Checkpoint, ForkRequest, checkpoints
from planrunner.cli.completion import RUN
from planrunner.cli.filesback import Manner, put_back
from planrunner.cli.group import given_settings
from planrunner.cli.settings import Settings, output
from planrunner.views.checkpoint import columns, lines
from planrunner.views.terminal import harmless, table


@click.command("checkpoints")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("checkpoint", required=False)
@click.option("--restore-files", is_flag=True, help="Make the files of the directory what they were at CHECKPOINT.")
@click.option("--yes", is_flag=True, help="Do not ask before files change.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def checkpoints_command(
    ctx: click.Context, /, run: str, checkpoint: str | None, restore_files: bool, yes: bool, as_json: bool
) -> int:
    """List the places that a run can be taken up from: one for each completed task, and for each round after which a
    loop keeps files. With CHECKPOINT (a name, the beginning of one, or a task) show what that one holds, or put its
    files back without going on from there. RUN is an id, the start of one, or `last`.

    \b
    Examples:
      planrunner checkpoints last
      planrunner checkpoints last cp-build
      planrunner checkpoints last cp-build --restore-files
      planrunner resume last --from cp-build --restore-files
    """
    given = given_settings(ctx)
    if restore_files:
        _restore(run, checkpoint, given, yes, as_json)
        return 0
    if checkpoint is not None:
        _show(run, checkpoint, given, as_json)
        return 0
    row, found = checkpoints(run, given.state)
    if as_json:
        listed = [_listed(one) for one in found]
        click.echo(json.dumps({"format": 1, "run_id": row.run, "checkpoints": listed}, indent=2))
    elif found:
        click.echo("\n".join(_table(found, given)))
    else:
        click.echo(f"run {row.run} has no checkpoints: no task completed before it ended", err=True)
    return 0


def _restore(run: str, checkpoint: str | None, given: Settings, yes: bool, as_json: bool) -> None:
    if checkpoint is None:
        raise click.UsageError("--restore-files goes with a CHECKPOINT")
    request = ForkRequest(run, checkpoint, state=given.state)
    restored = put_back(request, given, Manner(yes, as_json, "nothing was written", over=True))
    if as_json:
        click.echo(json.dumps({"format": 1, **restored.data()}, indent=2, ensure_ascii=False))


def _show(run: str, checkpoint: str, given: Settings, as_json: bool) -> None:
    found = look(run, checkpoint, given.state)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo("\n".join(lines(output(given), found, _clock(found["at"]))))


def _listed(one: Checkpoint) -> dict[str, Any]:
    """One checkpoint as data; ``files`` is null where nothing was kept of the working directory."""
    return {**one._asdict(), "files": None if one.files is None else one.files._asdict()}


def _table(found: list[Checkpoint], given: Settings) -> list[str]:
    """Columns for files stand only where a checkpoint has some."""
    rows = [(harmless(one.name), "the end" if one.ended else str(one.seq), _clock(one.at)) for one in found]
    if all(one.files is None for one in found):
        return table(output(given), ("checkpoint", "entry", "completed"), rows)
    full = [(*row, *columns(one.files)) for row, one in zip(rows, found)]
    return table(output(given), ("checkpoint", "entry", "completed", "files", "changes"), full)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
