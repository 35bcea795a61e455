"""``planrunner metrics`` and ``planrunner telemetry``."""

from __future__ import annotations

import click

from planrunner.app.follow.figures import figures, figures_document, measured
from planrunner.app.follow.reporting import reported
from planrunner.app.history.profile import profiled
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.runner import lay_environment, say
from planrunner.cli.settings import output
from planrunner.errors import FAILED, OK
from planrunner.process import stopped_by_signals
from planrunner.views.measures import measures_lines
from planrunner.views.profile import profile_document, profile_lines


@click.command("metrics")
@click.argument("run", default="", shell_complete=RUN)
@json_option
@click.pass_context
def metrics_command(ctx: click.Context, /, run: str, as_json: bool) -> int:
    """Show what the runs of this project amount to: success rate, durations, tokens, interventions.

    With RUN: what the time of that run went to, its critical path and its longest tasks.

    \b
    Examples:
      planrunner metrics
      planrunner metrics last
      planrunner metrics --json
    """
    given = given_settings(ctx)
    screen = output(given)
    if run:
        made = profiled(run, given.state)
        told, lines = profile_document(made), profile_lines(screen, made)
    else:
        amounts = figures(measured(given.state))
        told, lines = figures_document(amounts), measures_lines(screen, amounts)
    if as_json:
        print_document(told)
    else:
        screen.write("\n".join(lines) + "\n")
    return OK


@click.command("telemetry")
@click.option("--follow", is_flag=True, help="Continue with what comes, until Ctrl-C.")
@click.pass_context
def telemetry_command(ctx: click.Context, /, follow: bool) -> int:
    """Send the traces, metrics and notices of this project that are outstanding.

    Where they go is said by `telemetry` and `notify` in planrunner.yaml. `planrunner serve` and `planrunner worker`
    send them as well; of several processes one sends.

    \b
    Examples:
      planrunner telemetry
      planrunner telemetry --follow
    """
    given = given_settings(ctx)
    lay_environment(given)
    with reported(given.state, say) as reporting:
        if not follow:
            if not reporting.once() and not reporting.problems:
                say("nothing was sent here: a service or worker of this project sends, or no run has started")
            reporting.close()
        else:
            stopped = stopped_by_signals()
            reporting.start()
            say("sending telemetry and notices; stop it with Ctrl-C")
            stopped.wait()
            reporting.close()
        for reader, problem in reporting.problems.items():
            say(f"{reader}: {problem}")
        return FAILED if reporting.problems else OK
