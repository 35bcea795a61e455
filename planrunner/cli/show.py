"""``planrunner show``."""

from __future__ import annotations

import json

import click

from planrunner.app.calls import called
from planrunner.app.inspect import look
from planrunner.cli.completion import RUN, TASK
from planrunner.cli.group import given_settings
from planrunner.cli.running import tell_edited
from planrunner.cli.settings import note_stranger, output
from planrunner.errors import UsageError
from planrunner.views import run as picture
from planrunner.views.ending import ending
from planrunner.views.revision import revision_history, revisions
from planrunner.views.run import call_lines, run_object
from planrunner.views.tree import tree


@click.command("show")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("task", default="", shell_complete=TASK)
@click.option(
    "--inputs", is_flag=True, help="Show what each attempt of TASK was called with, and what models were sent."
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON object that `exec --json` prints.")
@click.option("--all", "whole", is_flag=True, help="List every task, whatever there is to tell of it.")
@click.option("--timeline", is_flag=True, help="Add a bar for each attempt.")
@click.pass_context
def show_command(
    ctx: click.Context, /, run: str, as_json: bool, whole: bool, timeline: bool, task: str, inputs: bool
) -> int:
    """Show how a run stands or ended, or with --inputs what a task was called with. RUN is an id, the start of one, or
    `last`.

    \b
    Examples:
      planrunner show
      planrunner show 20261121 --json
      planrunner show last --timeline
      planrunner show last build --inputs
    """
    if task or inputs:
        return _calls(ctx, run, task, inputs, as_json)
    given = given_settings(ctx)
    found = look(run, given.state)
    note_stranger(given)
    now = found.now
    if as_json:
        data = run_object(found.state, found.state.plan_digest, found.exit_code, now, found.entries)
        if found.state.revision > 1:
            data["revisions"] = revisions(found.entries)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        return 0
    screen = output(given)
    lines = tree(screen, found.state, now, whole)
    if timeline:
        lines += ["", *picture.timeline(screen, picture.bars(found.entries, found.state), now), ""]
    lines += revision_history(screen, found.entries)
    if found.state.status != "completed":
        tell_edited(given, found.row.run)
    screen.write("\n".join([*lines, *ending(screen, found.state, found.row.run, found.source)]) + "\n")
    return 0


def _calls(ctx: click.Context, run: str, task: str, inputs: bool, as_json: bool) -> int:
    """What a task was called with."""
    if not task:
        raise UsageError("--inputs needs the task", f"planrunner show {run} TASK --inputs")
    if not inputs:
        raise UsageError("a task is shown with --inputs", f"planrunner show {run} {task} --inputs")
    given = given_settings(ctx)
    found = called(run, task, given.state)
    if as_json:
        data = [{**each._asdict(), "sent": [sent._asdict() for sent in each.sent]} for each in found]
        click.echo(json.dumps({"format": 1, "calls": data}, indent=2, ensure_ascii=False, default=str))
        return 0
    screen = output(given)
    screen.write("\n".join(call_lines(screen, found)) + "\n")
    return 0
