"""``planrunner convert`` and ``graph``: a plan in another form."""

from __future__ import annotations

import sys

import click

from planrunner.app.history.show import look
from planrunner.app.plans.lint import convert_text, load_plan
from planrunner.app.plans.path import read_regular
from planrunner.cli.group import given_settings
from planrunner.cli.options import PlanPath
from planrunner.cli.settings import output
from planrunner.errors import NextStep, UsageError
from planrunner.plan.files import decode
from planrunner.source import Notation
from planrunner.views.graph import draw_graph, render_text
from planrunner.views.status import run_statuses

_NOTATIONS: dict[str, Notation] = {"yaml": "yaml", "plan": "text", "json": "json"}


@click.command("convert")
@click.argument("plan", type=PlanPath())
@click.option(
    "--to",
    "target",
    type=click.Choice(list(_NOTATIONS)),
    help="The notation to write (default: plan for YAML and JSON, yaml for the text notation).",
)
@click.option("-o", "--output", "path", metavar="FILE", help="Write to a file, which must not exist.")
@click.option("--stdin-filename", default="<stdin>", metavar="NAME", help="Name to show for standard input.")
def convert_command(plan: str, target: str | None, path: str | None, stdin_filename: str) -> int:
    """Convert a plan to YAML, the text notation or JSON. The meaning stays; comments stay where the notation has them.

    \b
    Examples:
      planrunner convert plans/release.yaml --to plan
      planrunner convert plans/release.plan --to yaml -o plans/release.yaml
    """
    file = decode(sys.stdin.buffer.read(), stdin_filename) if plan == "-" else read_regular(plan)
    text = convert_text(file, _NOTATIONS[target or ("yaml" if file.source.notation == "text" else "plan")])
    if path is None:
        click.echo(text, nl=False)
        return 0
    try:
        with open(path, "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise UsageError(f"`{path}` is there already") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    click.echo(f"wrote {path}", err=True)
    return 0


@click.command("graph")
@click.argument("plan", required=False, type=PlanPath())
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
    statuses = None
    if run is not None:
        state = look(run, given.state).state
        statuses = run_statuses(state)
        drawn = state.plan if plan is None else load_plan(plan)
    elif plan is not None:
        drawn = load_plan(plan)
    else:
        raise UsageError("name a plan or a run", NextStep("graph", "plans/release.yaml"))
    screen = output(given)
    if form == "text":
        screen.write(render_text(drawn, screen, statuses))
    else:
        screen.write(draw_graph(drawn, form, statuses))
    return 0
