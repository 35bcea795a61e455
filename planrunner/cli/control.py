"""``planrunner pause``, ``cancel`` and ``budget``."""

from __future__ import annotations

import time

import click

from planrunner.app.history.show import look
from planrunner.app.runs.control import Steered, steer
from planrunner.app.runs.resume import resume
from planrunner.cli.completion import RUN
from planrunner.cli.gates import amounts
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.runner import report_steered, say, watch
from planrunner.cli.settings import Settings, emit
from planrunner.errors import RunHeld, UsageError
from planrunner.views.budget import budget_document, budget_table


@click.command("pause")
@click.argument("run", shell_complete=RUN)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@json_option
@click.pass_context
def pause_command(ctx: click.Context, /, run: str, reason: str, as_json: bool) -> int:
    """Let running tasks finish, start no more, and pause the run. RUN is an id, the start of one, or `last`.

    The process that runs it exits with code 8; `planrunner resume` continues.

    \b
    Examples:
      planrunner pause last
      planrunner pause 20261121 --reason "the network is being repaired"
    """
    steered = steer(run, "pause", {"reason": reason} if reason else {}, given_settings(ctx).state, tell=say)
    return report_steered(steered, as_json)


@click.command("cancel")
@click.argument("run", shell_complete=RUN)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option(
    "--task",
    default="",
    metavar="TASK",
    help="Stop only this task, or abandon it if it waits for people; the run continues.",
)
@click.option("--now", is_flag=True, help="Kill running tasks immediately and skip `finally`.")
@json_option
@click.pass_context
def cancel_command(ctx: click.Context, /, run: str, reason: str, task: str, now: bool, as_json: bool) -> int:
    """Stop a run and end it. RUN is an id, the start of one, or `last`.

    Running tasks are asked to stop, then killed; other tasks are cancelled; tasks under `finally` run. If no process
    holds the lease of the run, this one drives it to its end.

    \b
    Examples:
      planrunner cancel last --reason "wrong branch"
      planrunner cancel 20261121 --now
      planrunner cancel last --task "fetch[3]"
    """
    given = given_settings(ctx)
    body = {**({"reason": reason} if reason else {}), **({"now": True} if now else {})}
    if task:
        return report_steered(steer(run, "cancel", {**body, "task": task}, given.state, tell=say), as_json)
    steered = steer(run, "cancel", body, given.state, tell=say)
    if steered.answer.applied and not steered.held and not steered.ended:
        steered = finish(given, steered)
    return report_steered(steered, as_json)


def finish(given: Settings, steered: Steered) -> Steered:
    """Drive a run without a lease from a request to its end; its status then."""
    try:
        result = resume(steered.run_id, (), given.state, watch(given, "auto"))
    except RunHeld:
        return steered._replace(held=True)  # another process was quicker and continues with what was asked
    except UsageError:
        ended = look(steered.run_id, given.state).row.status
        if not ended:
            raise
        return steered._replace(ended=ended)  # another process was quicker and is done with it
    return steered._replace(ended=result.status if result.state.ended_at is not None else "")


@click.command("budget")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--add", multiple=True, metavar="WHAT=AMOUNT", callback=amounts, help="Add to a limit; may be repeated.")
@click.option("--task", default="", metavar="TASK", help="Use the limits of this task instead of those of the plan.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@json_option
@click.pass_context
def budget_command(
    ctx: click.Context, /, run: str, add: dict[str, float], task: str, reason: str, as_json: bool
) -> int:
    """Show what a run has used, reserved and may use, or add to a limit. RUN is an id, the start of one, or `last`.

    A run that waits because a budget is used up continues with `planrunner resume`, one that ended with
    `planrunner retry`.

    \b
    Examples:
      planrunner budget
      planrunner budget last --add 'cost=$2' --reason "the corpus is larger than we thought"
      planrunner budget last --task research --add tokens=50k
    """
    given = given_settings(ctx)
    if add:
        body = {"add": add, **({"scope": task} if task else {}), **({"reason": reason} if reason else {})}
        return report_steered(steer(run, "budget", body, given.state, tell=say), as_json)
    looked = look(run, given.state)
    return emit(
        given, budget_document(looked.state, time.time()) if as_json else budget_table(looked.state, time.time())
    )
