"""``planrunner budget``."""

from __future__ import annotations

import json
import time

import click

from planrunner.app.control import steer
from planrunner.app.inspect import look
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.settings import output
from planrunner.cli.steering import report_steered, tell
from planrunner.cli.voting import amounts
from planrunner.views.budget import budget_table, reserves_object
from planrunner.views.run import budget_object


@click.command("budget")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--add", multiple=True, metavar="WHAT=AMOUNT", callback=amounts, help="Add to a limit; may be repeated.")
@click.option("--task", default="", metavar="TASK", help="The limit of this task, not of the plan.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def budget_command(
    ctx: click.Context, /, run: str, add: dict[str, float], task: str, reason: str, as_json: bool
) -> int:
    """Show what a run has used, set aside and may use, or add to a limit. RUN is an id, the start of one, or `last`.

    A run that waits because a budget is used up goes on with `planrunner resume`, one that ended for it with
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
        return report_steered(steer(run, "budget", body, given.state, tell=tell), as_json)
    found = look(run, given.state)
    if as_json:
        data = {"format": 1, "run_id": found.row.run, "budget": budget_object(found.state, time.time())}
        data["rollbacks"] = reserves_object(found.state)
        click.echo(json.dumps(data, indent=2))
        return 0
    output(given).write("\n".join(budget_table(found.state, time.time())) + "\n")
    return 0
