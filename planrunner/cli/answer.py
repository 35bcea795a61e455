"""``planrunner answer``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.cli.completion import GATE, RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import pair
from planrunner.cli.voting import cast, voting_options


def _fields(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        split = pair(value)
        if split is None:
            raise click.BadParameter(f"`{value}` is not FIELD=VALUE", ctx, param)
        found[split[0]] = split[1]
    return found


@click.command("answer")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.argument("choice", metavar="[OPTION]", default="")
@click.option("-f", "--field", "fields", multiple=True, metavar="FIELD=VALUE", callback=_fields, help="Fill a field.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the decision.")
@voting_options
@click.pass_context
def answer_command(ctx: click.Context, /, run: str, gate: str, go_on: bool, as_json: bool, **body: Any) -> int:
    """Choose an option of a gate, or fill its form. What you give becomes outputs of the gate.

    \b
    Examples:
      planrunner answer last way later --reason "after the holidays"
      planrunner answer last limits -f size=50MB -f strict=yes --resume
    """
    return cast(given_settings(ctx), run, gate, {"verdict": "approve", **body}, go_on=go_on, as_json=as_json)
