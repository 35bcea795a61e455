"""``planrunner rule``."""

from __future__ import annotations

import json

import click

from planrunner.app.rules import explain_rule, rule_objects
from planrunner.cli.completion import completes
from planrunner.diagnostics import RULES
from planrunner.errors import UsageError


@click.command("rule")
@click.argument(
    "code",
    required=False,
    shell_complete=completes(lambda ctx, word: [(each.code, each.title) for each in RULES.values()]),
)
@click.option("--all", "every", is_flag=True, help="Every rule.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rule_command(code: str | None, every: bool, as_json: bool) -> int:
    """Explain a lint rule, by code or by name.

    \b
    Examples:
      planrunner rule PLAN103
      planrunner rule dependency-cycle
      planrunner rule --all --json
    """
    if every == (code is not None):
        raise UsageError("name one rule, or ask for --all", "planrunner rule PLAN103")
    found = rule_objects(None if every else code)
    if as_json:
        click.echo(json.dumps({"format": 1, "rules": found} if every else found[0], indent=2, ensure_ascii=False))
    elif every:
        for rule in found:
            click.echo(f"{rule['code']}  {rule['severity']:<8} {rule['name']:<24} {rule['title']}")
    else:
        click.echo(explain_rule(found[0]["code"]))
    return 0
