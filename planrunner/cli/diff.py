"""``planrunner diff``."""

from __future__ import annotations

import sys
from json import dumps

import click

from planrunner.app.revising import compared
from planrunner.cli.group import given_settings
from planrunner.cli.settings import output
from planrunner.views.revision import difference_lines, difference_object


@click.command("diff")
@click.argument("one")
@click.argument("other")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff_command(ctx: click.Context, /, one: str, other: str, as_json: bool) -> int:
    """Show what differs between two plans: tasks, edges, gates, budgets, policy, parameters.

    Each is a plan file or a revision of a run: RUN@1 is the plan it began with, RUN the one it has now.

    \b
    Examples:
      planrunner diff last@1 last@2
      planrunner diff last release.yaml
    """
    given = given_settings(ctx)
    found = compared(one, other, given.state)
    if as_json:
        data = {"format": 1, "one": one, "other": other, "differences": difference_object(found)}
        sys.stdout.write(dumps(data, ensure_ascii=False, default=str) + "\n")
        return 0
    lines = difference_lines(output(given), found) or ["the plans are the same"]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
