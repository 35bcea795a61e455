"""``planrunner fork``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from planrunner.cli.exec import pairs
from planrunner.cli.group import given_settings
from planrunner.errors import StorageFailed, UsageError

if TYPE_CHECKING:
    from planrunner.app.forking import Forked, ForkRequest
    from planrunner.app.rewinding import Step
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
@click.option("--restore-files", is_flag=True, help="Make the files of the directory what they were then.")
@click.option("--yes", is_flag=True, help="Do not ask before files change.")
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
    tell_of_files(made)
    if as_json:
        click.echo(json.dumps({"format": 1, **made._asdict()}, indent=2, ensure_ascii=False))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    click.echo(made.run_id)
    click.echo(f"goes on from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0


def tell_of_files(made: Forked) -> None:
    """Say that files are not as they were, where nobody asked to have them put back."""
    if made.files:
        count = f"{made.files} {'path is' if made.files == 1 else 'paths are'}"
        click.echo(f"{count} not as at the checkpoint: --restore-files shows which and puts them back", err=True)


def put_back(request: ForkRequest, given: Settings, yes: bool) -> None:
    """Show what would be written and removed, ask, and do it. Raises UsageError where nobody says yes, and
    StorageFailed where not everything could be done."""
    from planrunner.app.forking import files_at
    from planrunner.app.rewinding import carry_out

    plan = files_at(request)
    for step in plan.steps:
        click.echo(_intended(step), err=True)
    if not plan.acts:
        click.echo("no file has to be put back", err=True)
        return
    asks = not yes and sys.stdin.isatty() and not given.no_input
    if not yes and not (asks and click.confirm("change these files?", err=True)):
        raise UsageError("nothing was written and no run was made", "say --yes to change these files")
    problems = []
    for done in carry_out(plan):
        if done.problem:
            problems.append(f"{_shown(done.step.path)}: {done.problem}")
            continue
        kept = f"; what it was is kept as artifact {done.before[:12]}" if done.before else ""
        click.echo(f"{'removed' if done.step.how == 'removed' else 'wrote'} {_shown(done.step.path)}{kept}", err=True)
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        message = f"not everything could be put back, and no run was made: {'; '.join(problems[:3])}{more}"
        raise StorageFailed(message, "mend that and say the same again")


def _intended(step: Step) -> str:
    path = _shown(step.path)
    if step.how == "removed":
        return f"remove {path}: it came since"
    if not step.writes:
        return f"leave out {path}: {step.how}"
    what = f"has another mode than {step.piece.mode:03o}" if step.how == "mode" and step.piece else _IS[step.how]
    return f"write {path}: it {what}"


_IS = {"missing": "is missing", "differs": "has another content", "kind": "is something else"}


def _shown(path: str) -> str:
    """A path as one line of text, whatever bytes its name has."""
    from planrunner.views.terminal import harmless

    return harmless(path.replace("\n", "\\n").encode("utf-8", "backslashreplace").decode())
