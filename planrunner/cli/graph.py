"""``planrunner graph``."""

from __future__ import annotations

import click

from planrunner.app.authoring import draw_graph, load_plan
from planrunner.app.inspect import look
from planrunner.app.planfile import plan_named
from planrunner.cli.group import given_settings
from planrunner.cli.settings import output
from planrunner.errors import UsageError
from planrunner.views.graph import render_text
from planrunner.views.status import run_statuses


@click.command("graph")
@click.argument("plan", required=False, type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(["text", "mermaid", "dot", "json"]), default="text", help="What to write."
)
@click.option("--run", metavar="RUN", help="Colour by how a run stands; without PLAN its own plan is drawn.")
@click.pass_context
def graph_command(ctx: click.Context, /, plan: str | None, form: str, run: str | None) -> int:
    """Draw the graph of a plan.

    \b
    Examples:
      planrunner graph plans/release.yaml
      planrunner graph plans/release.yaml --format mermaid
      planrunner graph --run last --format dot | dot -Tsvg > run.svg
    """
    given = given_settings(ctx)
    plan = plan if plan is None else plan_named(plan)
    statuses = None
    if run is not None:
        state = look(run, given.state).state
        statuses = run_statuses(state)
        drawn = state.plan if plan is None else load_plan(plan)
    elif plan is not None:
        drawn = load_plan(plan)
    else:
        raise UsageError("name a plan or a run", "planrunner graph plans/release.yaml")
    screen = output(given)
    if form == "text":
        screen.write(render_text(drawn, screen, statuses))
    else:
        screen.write(draw_graph(drawn, form, statuses))
    return 0
