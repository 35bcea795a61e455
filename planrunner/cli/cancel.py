"""``planrunner cancel``."""

from __future__ import annotations

import click

from planrunner.app.control import Steered, steer
from planrunner.app.inspect import look
from planrunner.app.resuming import resume
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.renderer import watch
from planrunner.cli.settings import Settings
from planrunner.cli.steering import report_steered, tell
from planrunner.errors import RunHeld, UsageError


@click.command("cancel")
@click.argument("run", shell_complete=RUN)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option(
    "--task",
    default="",
    metavar="TASK",
    help="Stop only what this task does now, or abandon it where it waits for people; the run goes on.",
)
@click.option("--now", is_flag=True, help="Kill what runs at once, and leave out what stands under `finally`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def cancel_command(ctx: click.Context, /, run: str, reason: str, task: str, now: bool, as_json: bool) -> int:
    """Stop a run for good. RUN is an id, the start of one, or `last`.

    What runs is asked to end and killed when it does not; what has not started is cancelled; tasks under `finally` run.
    Where no process holds the run, this one carries it to its end.

    \b
    Examples:
      planrunner cancel last --reason "wrong branch"
      planrunner cancel 20261121 --now
      planrunner cancel last --task "fetch[3]"
    """
    given = given_settings(ctx)
    body = {**({"reason": reason} if reason else {}), **({"now": True} if now else {})}
    if task:
        return report_steered(steer(run, "cancel", {**body, "task": task}, given.state, tell=tell), as_json)
    steered = steer(run, "cancel", body, given.state, tell=tell)
    if steered.answer.applied and not steered.held and not steered.ended:
        steered = finish(given, steered)
    return report_steered(steered, as_json)


def finish(given: Settings, steered: Steered) -> Steered:
    """Drive a run that nobody holds from what was asked of it to its end; how it stands then."""
    try:
        result = resume(steered.run_id, (), given.state, watch(given, "auto"))
    except RunHeld:
        return steered._replace(held=True)  # another process was quicker and goes on with what was asked
    except UsageError:
        ended = look(steered.run_id, given.state).row.status
        if not ended:
            raise
        return steered._replace(ended=ended)  # another process was quicker and is done with it
    return steered._replace(ended=result.status if result.state.ended_at is not None else "")
