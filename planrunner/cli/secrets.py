"""``planrunner secrets``."""

from __future__ import annotations

import json

import click

from planrunner.app.credentials import listed, looked_up
from planrunner.cli.group import given_settings
from planrunner.cli.settings import output
from planrunner.errors import FAILED
from planrunner.views.rights import rows


@click.command("secrets")
@click.argument("action", type=click.Choice(("list", "check")), default="list")
@click.argument("plan", type=click.Path(), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def secrets_command(ctx: click.Context, /, action: str, plan: str | None, as_json: bool) -> int:
    """List the credentials of the project and where each comes from (`list`, the default), or look each of them up
    (`check`; exit code 1 where one is not there). With a PLAN, `check` looks up those that its tasks declare. No value
    is ever printed.

    \b
    Examples:
      planrunner secrets
      planrunner secrets check
      planrunner secrets check plans/release.yaml
    """
    found = looked_up(plan) if action == "check" else listed(plan)
    if as_json:
        told = [each._asdict() for each in found]
        click.echo(json.dumps({"format": 1, "credentials": told}, indent=2, ensure_ascii=False))
    else:
        output(given_settings(ctx)).write("".join(f"{line}\n" for line in rows(output(given_settings(ctx)), found)))
    return FAILED if any(each.there is False for each in found) else 0
