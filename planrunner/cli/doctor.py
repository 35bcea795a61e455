"""``planrunner doctor``."""

from __future__ import annotations

import json

import click

from planrunner.cli.group import given_settings
from planrunner.cli.settings import output

_SIGNS = {"ok": "completed", "note": "blocked", "problem": "failed"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for reports of faults.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> int:
    """Check this installation and its surroundings; code 1 where something is wrong."""
    from planrunner.app.doctor import examine

    given = given_settings(ctx)
    checks = examine(given.state)
    healthy = all(check.verdict != "problem" for check in checks)
    if as_json:
        rows = [check._asdict() for check in checks]
        click.echo(json.dumps({"format": 1, "ok": healthy, "checks": rows}, indent=2, ensure_ascii=False))
    else:
        screen = output(given)
        for check in checks:
            advice = f" ({check.advice})" if check.advice else ""
            screen.write(f"{screen.sign(_SIGNS[check.verdict])} {check.name:<14} {check.found}{advice}\n")
    return 0 if healthy else 1
