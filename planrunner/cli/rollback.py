"""``planrunner rollback``."""

from __future__ import annotations

import click

from planrunner.app.runs.rollback import RollbackRequest, planned_document, preview, roll_back
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option, output_option, progress_option
from planrunner.cli.output import print_document
from planrunner.cli.runner import lay_environment, watch, write_object
from planrunner.cli.settings import Settings
from planrunner.errors import FAILED, OK, WAITING
from planrunner.escapes import harmless


@click.command("rollback")
@click.argument("run", shell_complete=RUN)
@click.option("--to", metavar="TASK", default="", help="Undo what started after this task, and keep the task itself.")
@click.option("--only", multiple=True, metavar="TASK", help="Undo only this task, or those with this label.")
@click.option("--strict/--best-effort", default=None, help="Stop at the first failure, or continue after it.")
@click.option("--reason", metavar="TEXT", default="", help="The reason, recorded with the run.")
@click.option("--preview", is_flag=True, help="Only show what would be undone.")
@json_option
@progress_option
@output_option
@click.pass_context
def rollback_command(
    ctx: click.Context,
    /,
    run: str,
    to: str,
    only: tuple[str, ...],
    strict: bool | None,
    reason: str,
    preview: bool,
    as_json: bool,
    progress: str,
    output: str | None,
) -> int:
    """Undo the tasks of a run: the last task first, by the `rollback` and `backup` of each. RUN is an id, the start of
    one, or `last`. Whatever is still open in the run is cancelled.

    Code 0: everything was undone. Code 1: something could not be. Code 8: the rollback waits and can be resumed.

    \b
    Examples:
      planrunner rollback last --preview
      planrunner rollback last
      planrunner rollback last --to build --strict
    """
    given = given_settings(ctx)
    request = RollbackRequest(run, to, only, strict, reason)
    if preview:
        return _preview(given, request, as_json)
    lay_environment(given)
    result = roll_back(request, given.state, watch(given, progress, output))
    compensation_log = result.state.compensation_log
    if as_json:
        write_object(result)
    if compensation_log is not None and compensation_log.main.status == "rolled_back":
        return OK
    return result.exit_code if result.status == "paused" else WAITING if result.status == "blocked" else FAILED


def _preview(given: Settings, request: RollbackRequest, as_json: bool) -> int:
    planned = preview(request, given.state)
    if as_json:
        print_document(planned_document(planned))
        return OK
    mode = "strict" if planned.strict else "best effort"
    lines = [f"run {planned.run_id}, {mode}: would undo{', in this order' if planned.steps else ' nothing'}"]
    for step in planned.steps:
        first, *more = step.what.splitlines() or [""]
        lines.append(f"  {step.task}: {first}{' ...' if more else ''}")
    if planned.bare:
        lines.append(f"not undone, no rollback declared: {', '.join(planned.bare)}")
    click.echo("\n".join(harmless(line) for line in lines))
    return OK
