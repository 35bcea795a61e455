"""``planrunner policy``."""

from __future__ import annotations

import json

import click

from planrunner.app.policies import explain
from planrunner.errors import DENIED
from planrunner.views.rights import render


@click.group("policy")
def policy_command() -> None:
    """Policies: what plans and their tasks may do.

    \b
    Examples:
      planrunner policy explain plans/release.yaml
      planrunner policy explain plans/release.yaml --json
    """


@policy_command.command("explain")
@click.argument("plan", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain_(plan: str, as_json: bool) -> int:
    """Tell for each task of PLAN what it may do, and which line says so.

    The exit code is 12 where a policy refuses something that a task wants.

    \b
    Examples:
      planrunner policy explain plans/release.yaml
    """
    found, tasks = explain(plan)
    if as_json:
        told = [{**task._asdict(), "said": [each._asdict() for each in task.said]} for task in tasks]
        click.echo(json.dumps({"format": 1, "plan": found.id, "tasks": told}, indent=2, ensure_ascii=False))
    else:
        click.echo(render(f"{found.id} ({plan})", tasks))
    return DENIED if any(each.verdict == "deny" for task in tasks for each in task.said) else 0
